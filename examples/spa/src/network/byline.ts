import { createByline } from "byline-client";
import { refresh, token } from "../session/session";
import { storage } from "../session/storage";
import { pause, Waiting } from "./status";

const waiting = new Waiting();

/** The connection of this tab to the gateway. */
export const byline = createByline({
  url: "/graphql",
  token,
  refresh,
  headers: (): Record<string, string> => (import.meta.env.DEV ? { "Byline-Cost": "summary" } : {}),
  storage: { getItem: storage.get, setItem: storage.set },
  pause,
  onConnection: (connected) => {
    if (connected) waiting.end();
    else waiting.report(navigator.onLine ? "unreachable" : "offline");
  },
});
