import type { ResponseError } from "byline-client";
import type { GraphQLResponse, RequestParameters, Variables } from "relay-runtime";
import { token } from "../session/session";
import { byline } from "./byline";
import { recordCost } from "./cost";
import { textOf } from "./documents";
import { GatewayError, SessionEndedError, UnreachableError } from "./errors";
import { inlinedResponse } from "./inlined";
import { queryURL } from "./queryURL";

export interface Body {
  data?: Record<string, unknown> | null;
  errors?: ResponseError[];
  extensions?: { cost?: { predictedRU: number; actualRU: number } };
}

interface Options {
  post: boolean; // send a query by POST
  signal: AbortSignal;
}

/** Executes a query or mutation once. */
export async function execute(
  request: RequestParameters,
  variables: Variables,
  options: Options,
): Promise<GraphQLResponse> {
  const inlined = inlinedResponse(request, variables);
  if (inlined) return inlined as GraphQLResponse;
  const response = await transmit(request, variables, options);
  const body = await parse(response);
  recordCost(request.name, body.extensions?.cost);
  if (body.errors && (request.operationKind === "mutation" || isIncomplete(body))) throw new GatewayError(body.errors);
  return body as GraphQLResponse;
}

// Queries go by GET with the hash of their document, so that a CDN can cache the responses. The browser asks each time.
async function transmit(
  request: RequestParameters,
  variables: Variables,
  { post, signal }: Options,
) {
  const id = request.id ?? "";
  const text = await textOf(request);
  if (request.operationKind === "query" && !text && !post) {
    const own = token() ? "&signedIn" : ""; // else the browser takes the preloaded response for anyone
    return send(queryURL(id, variables) + own, { cache: "no-cache" }, signal);
  }
  const body = JSON.stringify(text ? { query: text, variables } : { documentId: id, variables });
  return send(byline.url, { method: "POST", headers: { "Content-Type": "application/json" }, body }, signal);
}

const timeout = 40_000; // milliseconds; the gateway's is 30 s
const mediaType = "application/graphql-response+json"; // with it, a refused token has status 401

type Init = Omit<RequestInit, "headers"> & { headers?: Record<string, string> };

function send(url: string, init: Init, signal: AbortSignal) {
  const headers = { Accept: mediaType, ...init.headers };
  return byline.fetch(url, { ...init, headers, signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]) })
    .catch((error: unknown) => {
      throw error instanceof SessionEndedError ? error : new UnreachableError("no response", { cause: error });
    });
}

/** Reports whether the whole operation has failed, or a field of its root: null would say that it does not exist. */
export const isIncomplete = ({ data, errors = [] }: Body) =>
  errors.some(({ path }) => path === undefined || data?.[String(path[0])] == null);

async function parse(response: Response): Promise<Body> {
  try {
    const body = (await response.json()) as Body;
    if (body.data !== undefined || body.errors) return body;
  } catch (error) {
    throw new UnreachableError(`status ${response.status}`, { cause: error });
  }
  throw new UnreachableError(`status ${response.status}`);
}
