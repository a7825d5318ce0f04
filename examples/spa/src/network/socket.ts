import { CloseCode, createClient } from "graphql-ws";
import { refresh } from "../session/session";
import { SessionEndedError } from "./errors";
import { credentials } from "./send";
import { pause, Waiting } from "./status";

const waiting = new Waiting();
const silence = 5000; // milliseconds without an answer to a ping, after which the connection is closed
const connections = new EventTarget();

// Codes of graphql-ws, of a refused token and of connectionParams that has thrown.
const forbidden: number = CloseCode.Forbidden;
const internalClientError: number = CloseCode.InternalClientError;

let refused = false;
let pong: ReturnType<typeof setTimeout>;
let open: WebSocket | undefined;

/** Carries all subscriptions; it connects for the first one, and again whenever the connection is lost. */
export const socket = createClient({
  url: "/graphql",
  connectionParams: async () => {
    if (refused && !(await refresh())) throw new SessionEndedError("the token is not valid");
    return credentials();
  },
  shouldRetry: (reason) => !(reason instanceof SessionEndedError), // also if the connection is refused
  retryAttempts: Infinity,
  retryWait: (retries) => pause(Math.min(8000, 500 * 2 ** retries) * (0.75 + Math.random() / 2)),
  keepAlive: 15_000,
  on: {
    opened: (opened) => (open = opened as WebSocket),
    connected: () => {
      waiting.end();
      readAgain();
    },
    ping: (received) => {
      if (!received) pong = setTimeout(() => open?.close(4408, "no answer"), silence);
    },
    pong: () => {
      clearTimeout(pong);
    },
    closed: (event) => {
      const { code, wasClean } = event as CloseEvent;
      clearTimeout(pong);
      refused = code === forbidden;
      if (refused || code === internalClientError || (wasClean && code === 1000)) return; // 1000: nothing is subscribed
      waiting.report(navigator.onLine ? "unreachable" : "offline");
    },
  },
});

/** Has the subscribers to connections read again. */
export const readAgain = () => connections.dispatchEvent(new Event("connected"));

/** Calls back after each connection, until the function that it returns is called. */
export function onConnected(listener: () => void) {
  connections.addEventListener("connected", listener);
  return () => {
    connections.removeEventListener("connected", listener);
  };
}
