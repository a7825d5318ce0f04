import { CloseCode, createClient } from "graphql-ws/client";
import { backoff, retryDelay } from "./backoff.js";
import type { Operation, Response } from "./index.js";

/** Receives what a subscription delivers. */
export interface Sink<Data> {
  next(response: Response<Data>): void;
  /** The operation was refused, with the errors of the gateway, or there will be no connection, with another reason. */
  error(reason: unknown): void;
  complete(): void;
}

/** Sends operations over one WebSocket. */
export interface Socket {
  /** Starts a subscription, or executes a query or mutation; returns how to end it. */
  subscribe<Data = Record<string, any>>(operation: Operation, sink: Sink<Data>): () => void;
  /** Ends all operations and closes the connection. */
  dispose(): void | Promise<void>;
}

interface Parts {
  url: string;
  token: () => string | null | undefined;
  renew: ((used: string | null | undefined) => Promise<void>) | undefined;
  credentials: () => Record<string, string>;
  keep: (session: unknown) => void;
  pause: (ms: number) => Promise<void>;
  started: EventTarget; // gets an event when subscriptions have started, or have started again
  onConnection?: ((connected: boolean) => void) | undefined;
}

const silence = 5000; // milliseconds without an answer to a ping, after which the connection is closed

/** isRefusal: the gateway has refused the token, or the token of an open connection has expired. */
const isRefusal = (reason: unknown): reason is CloseEvent => (reason as CloseEvent | null)?.code === CloseCode.Forbidden;

export function createSocket({ url, token, renew, credentials, keep, pause, started, onConnection }: Parts): Socket {
  let used: string | null | undefined; // the token of the last connection
  let refused = 0; // connections in a row
  let open: WebSocket | undefined;
  let pong: ReturnType<typeof setTimeout>;
  const announce = () => started.dispatchEvent(new Event("started"));

  const client = createClient({
    url: new URL(url, globalThis.location?.href).href.replace(/^http/, "ws"),
    connectionParams: async () => {
      if (refused) await renew?.(used);
      used = token();
      return credentials();
    },
    shouldRetry: (reason) => {
      if (isRefusal(reason)) return refused < 2 && (!!renew || token() !== used);
      return !(reason instanceof Error) || reason instanceof TypeError; // errors are those of refresh
    },
    retryAttempts: Infinity,
    retryWait: (retries) => pause(backoff(retries)),
    keepAlive: 15_000,
    on: {
      opened: (socket) => (open = socket as WebSocket),
      connected: () => {
        refused = 0;
        onConnection?.(true);
        announce();
      },
      ping: (received) => {
        if (!received) pong = setTimeout(() => open?.close(4408, "no answer"), silence);
      },
      pong: () => clearTimeout(pong),
      closed: (event) => {
        const { code, wasClean } = event as CloseEvent;
        clearTimeout(pong);
        if (isRefusal(event)) refused++;
        const ended = wasClean && code === 1000; // nothing is subscribed
        if (!ended && !refused) onConnection?.(false);
      },
    },
  });

  return {
    dispose: client.dispose,
    // Subscribes again when the gateway has refused or ended a subscription for a time.
    subscribe(operation, sink) {
      let ended = false;
      let unsubscribe = () => {};
      let refusals = 0;
      const start = () => {
        if (ended) return;
        unsubscribe = client.subscribe<any, any>({ query: "", ...operation } as { query: string }, {
          next: (event) => {
            refusals = 0;
            keep(event.extensions?.["session"]);
            sink.next(event as Response<any>);
          },
          error: (reason) => {
            if (isRefusal(reason)) {
              setTimeout(() => (refused = 0)); // after the other subscriptions have ended, too
              return sink.error([{ message: reason.reason, extensions: { code: "UNAUTHENTICATED" } }]);
            }
            const delay = Array.isArray(reason) ? retryDelay(reason[0]?.extensions, refusals++) : undefined;
            if (delay === undefined) sink.error(reason);
            else void pause(delay).then(start);
          },
          complete: () => sink.complete(),
        });
        if (refusals > 0) announce();
      };
      start();
      return () => {
        ended = true;
        unsubscribe();
      };
    },
  };
}
