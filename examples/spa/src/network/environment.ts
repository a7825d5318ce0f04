import {
  Environment,
  Network,
  Observable,
  RecordSource,
  Store,
  type FetchFunction,
  type GraphQLResponse,
  type SubscribeFunction,
} from "relay-runtime";
import { textOf } from "./documents";
import { execute } from "./execute";
import { GatewayError, type ResponseError } from "./errors";
import { pauseAfter, retrying } from "./retry";
import { pause } from "./status";

const fetchOperation: FetchFunction = (request, variables, { force, metadata }) =>
  Observable.create<GraphQLResponse>((sink) => {
    const controller = new AbortController();
    const { signal } = controller;
    const options = { force: force === true, post: metadata?.post === true, signal };
    retrying(() => execute(request, variables, options), signal).then(
      (response) => {
        sink.next(response);
        sink.complete();
      },
      (error: unknown) => {
        if (!signal.aborted) sink.error(error as Error);
      },
    );
    return () => {
      if (request.operationKind === "query") controller.abort(); // a mutation goes on when its page is gone
    };
  });

// A subscription that the gateway refuses for a while is sent again, as queries are.
const subscribe: SubscribeFunction = (request, variables) =>
  Observable.create<GraphQLResponse>((sink) => {
    const controller = new AbortController();
    const { signal } = controller;
    let unsubscribe: (() => void) | undefined;
    let refusals = 0;
    const start = async () => {
      const [{ socket, readAgain }, query = ""] = await Promise.all([import("./socket"), textOf(request)]);
      if (signal.aborted) return;
      unsubscribe = socket.subscribe(
        { query, variables, ...(!query && { documentId: request.id }) },
        {
          next: ({ data, errors }) => {
            refusals = 0;
            if (data && !errors?.length) sink.next({ data }); // else a part of this event could not be read
          },
          error: (reason) => {
            const error = Array.isArray(reason) ? new GatewayError(reason as ResponseError[]) : (reason as Error);
            const ms = pauseAfter(error, refusals++);
            if (ms === undefined) sink.error(error);
            else void pause(ms, signal).then(start);
          },
          complete: () => {
            sink.complete();
          },
        },
      );
      if (refusals > 0) readAgain();
    };
    void start();
    return () => {
      controller.abort();
      unsubscribe?.();
    };
  });

export const environment = new Environment({
  network: Network.create(fetchOperation, subscribe),
  store: new Store(new RecordSource(), { gcReleaseBufferSize: 30 }), // pages to go back to without a request
});
