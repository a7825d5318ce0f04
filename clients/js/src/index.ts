import { backoff, retryDelay, type ErrorExtensions } from "./backoff.js";
import type { Sink, Socket } from "./socket.js";

export { backoff, retryDelay, type ErrorExtensions, type Sink, type Socket };
export { upload, UploadError, type Uploaded, type UploadOptions } from "./upload.js";

export interface Options {
  /** The gateway's endpoint, such as "/graphql". */
  url: string;
  /** The current access token, without "Bearer"; empty or null for an anonymous viewer. */
  token?: () => string | null | undefined;
  /**
   * Replaces a token that the gateway has refused, once for all operations that wait; they are sent again. If it rejects,
   * they fail with its reason, but subscriptions wait and try again after a TypeError, as of a fetch without response.
   * Without it, or if the new token is refused as well, they fail with UNAUTHENTICATED.
   */
  refresh?: () => Promise<unknown>;
  /** More headers of requests, also sent in the payload of the WebSocket's connection_init. */
  headers?: () => Record<string, string>;
  /** Where the session is kept, as "byline.session"; by default in memory, for the life of the page. */
  storage?: Pick<Storage, "getItem" | "setItem">;
  /** Resolves after a pause before a retry, in milliseconds; it may resolve earlier, as when the browser is online again. */
  pause?: (ms: number) => Promise<void>;
  /**
   * Called with true when the WebSocket is connected, and with false when the connection is lost; not when the gateway
   * refuses the token, after which subscriptions continue with a new one or end with UNAUTHENTICATED.
   */
  onConnection?: (connected: boolean) => void;
}

/** A GraphQL operation: its text, or its id in the gateway's trusted documents. */
export interface Operation {
  query?: string;
  documentId?: string | null | undefined;
  variables?: object;
  operationName?: string;
  extensions?: object;
}

export interface ResponseError {
  message: string;
  path?: (string | number)[];
  extensions?: ErrorExtensions;
}

export interface Response<Data> {
  data?: Data | null;
  errors?: ResponseError[];
  extensions?: Record<string, any>;
}

export interface Byline {
  readonly url: string;
  /** Fetches with the token and the session, once more with a new token if the gateway refuses the present one. */
  readonly fetch: typeof fetch;
  /** Executes a query or mutation by POST. Rejects if there is no GraphQL response. */
  execute<Data = Record<string, any>>(operation: Operation, init?: RequestInit): Promise<Response<Data>>;
  /** Carries subscriptions. It connects for the first one, again when the connection is lost, and loads graphql-ws then. */
  readonly socket: Socket;
  /** Replaces the token, as after an UNAUTHENTICATED error in an event stream. */
  refresh(): Promise<unknown>;
  /**
   * Calls read in a second, and a second after subscriptions have started again, until the function that it returns is
   * called: events from before a subscription has started are not delivered.
   */
  readAgain(read: () => void): () => void;
}

/** Connects one viewer to the gateway. Load the page again when the viewer signs in or out. */
export function createByline(options: Options): Byline {
  const { url, token = () => null, refresh, headers, storage = memory(), pause = sleep, onConnection } = options;
  const started = new EventTarget();
  let refreshing: Promise<unknown> | undefined;
  let client: Promise<Socket> | undefined;

  function credentials(): Record<string, string> {
    const [bearer, session] = [token(), storage.getItem(storageKey)];
    return {
      ...headers?.(),
      ...(bearer && { Authorization: `Bearer ${bearer}` }),
      ...(session && { "Byline-Session": session }),
    };
  }

  // Without a token there is nothing to keep: the viewer has signed out meanwhile.
  function keep(session: unknown) {
    if (typeof session === "string" && token()) storage.setItem(storageKey, session);
  }

  // Replaces the token that was used, unless another operation has replaced it meanwhile.
  async function renew(used: string | null | undefined) {
    if (!refresh || token() !== used) return;
    await (refreshing ??= refresh().finally(() => (refreshing = undefined)));
  }

  const send: typeof fetch = async (input, init) => {
    const attempt = () => {
      const all = new Headers(init?.headers);
      for (const [name, value] of Object.entries(credentials())) all.set(name, value);
      return fetch(input, { ...init, headers: all });
    };
    const used = token();
    let response = await attempt();
    if (response.status === 401 && used && refresh) {
      await renew(used);
      response = await attempt();
    }
    keep(response.headers.get("Byline-Session"));
    return response;
  };

  function connect() {
    client ??= import("./socket.js").then(
      ({ createSocket }) =>
        createSocket({ url, token, renew: refresh && renew, credentials, keep, pause, started, onConnection }),
    );
    client.catch(() => (client = undefined)); // to be loaded again
    return client;
  }

  return {
    url,
    fetch: send,
    async execute(operation, init) {
      const response = await send(url, {
        ...init,
        method: "POST",
        headers: { Accept: "application/graphql-response+json", "Content-Type": "application/json" },
        body: JSON.stringify(operation),
      });
      const body = await response.json().catch((reason) => {
        if (!(reason instanceof SyntaxError)) throw reason;
      });
      if (body?.data !== undefined || body?.errors) return body;
      const type = response.headers.get("Content-Type")?.split(";")[0] ?? "no content type";
      throw new Error(`POST ${url}: ${response.status}, ${type}: not a GraphQL response; check url and proxy`);
    },
    socket: {
      subscribe(operation, sink) {
        let ended = false;
        let unsubscribe = () => {};
        connect().then(
          (socket) => { if (!ended) unsubscribe = socket.subscribe(operation, sink); },
          (reason) => sink.error(reason),
        );
        return () => {
          ended = true;
          unsubscribe();
        };
      },
      dispose: async () => (await client)?.dispose(),
    },
    refresh: () => renew(token()),
    readAgain(read) {
      let timer = setTimeout(read, 1000);
      const soon = () => {
        clearTimeout(timer);
        timer = setTimeout(read, 1000);
      };
      started.addEventListener("started", soon);
      return () => {
        clearTimeout(timer);
        started.removeEventListener("started", soon);
      };
    },
  };
}

const storageKey = "byline.session";

function memory(): Pick<Storage, "getItem" | "setItem"> {
  const items = new Map<string, string>();
  return { getItem: (key) => items.get(key) ?? null, setItem: (key, value) => void items.set(key, value) };
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A list with the item at its top, once: the item may have been read already. */
export const prepend = <Item extends { id: string }>(list: readonly Item[] = [], item: Item): Item[] =>
  [item, ...list.filter(({ id }) => id !== item.id)];
