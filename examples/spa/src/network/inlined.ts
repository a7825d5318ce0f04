import type { RequestParameters, Variables } from "relay-runtime";
import { token } from "../session/session";
import type { Body } from "./execute";

const element = document.getElementById("byline-response");

/** The response that a page of the gateway brings along, for the first request of an anonymous reader. */
export function inlinedResponse({ id }: RequestParameters, variables: Variables): Body | undefined {
  if (!element?.isConnected || element.dataset.document !== id || token()) return undefined;
  if (!isSame(JSON.parse(element.dataset.variables ?? "{}") as Variables, variables)) return undefined;
  element.remove();
  return JSON.parse(element.textContent) as Body;
}

const isSame = (a: Variables, b: Variables) => canonical(a) === canonical(b);

const canonical = (variables: Variables) => JSON.stringify(Object.entries(variables).sort());
