import { CloseCode, createClient, type Client } from "graphql-ws/client";
import { backoff, retryDelay } from "./backoff.js";

/** Sends operations over one WebSocket. Its subscribe returns how to end the subscription. */
export type Socket = Pick<Client, "subscribe" | "dispose">;

interface Parts {
  url: string;
  token: () => string | null | undefined;
  renew: (used: string | null | undefined) => Promise<void>;
  credentials: () => Record<string, string>;
  keep: (session: unknown) => void;
  pause: (ms: number) => Promise<void>;
  started: EventTarget; // gets an event when subscriptions have started, or have started again
  onConnection?: ((connected: boolean) => void) | undefined;
}

const silence = 5000; // milliseconds without an answer to a ping, after which the connection is closed

export function createSocket({ url, token, renew, credentials, keep, pause, started, onConnection }: Parts): Socket {
  let used: string | null | undefined; // the token of the last connection
  let refused = false;
  let open: WebSocket | undefined;
  let pong: ReturnType<typeof setTimeout>;
  const announce = () => started.dispatchEvent(new Event("started"));

  const client = createClient({
    url: new URL(url, globalThis.location?.href).href.replace(/^http/, "ws"),
    connectionParams: async () => {
      if (refused) await renew(used);
      used = token();
      return credentials();
    },
    shouldRetry: (reason) => !(reason instanceof Error) || reason instanceof TypeError, // errors are those of refresh
    retryAttempts: Infinity,
    retryWait: (retries) => pause(backoff(retries)),
    keepAlive: 15_000,
    on: {
      opened: (socket) => (open = socket as WebSocket),
      connected: () => {
        refused = false;
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
        refused ||= code === CloseCode.Forbidden;
        const ended = wasClean && code === 1000; // nothing is subscribed
        if (!refused && !ended) onConnection?.(false);
      },
    },
  });

  return {
    dispose: client.dispose,
    // Subscribes again when the gateway has refused or ended a subscription for a time.
    subscribe(payload, sink) {
      let ended = false;
      let unsubscribe = () => {};
      let refusals = 0;
      const start = () => {
        if (ended) return;
        unsubscribe = client.subscribe<any, any>(payload, {
          next: (event) => {
            refusals = 0;
            keep(event.extensions?.["session"]);
            sink.next(event);
          },
          error: (reason) => {
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
