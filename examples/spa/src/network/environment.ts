import type { ResponseError } from "byline-client";
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
import { byline } from "./byline";
import { textOf } from "./documents";
import { execute } from "./execute";
import { GatewayError } from "./errors";
import { retrying } from "./retry";

const fetchOperation: FetchFunction = (request, variables, { metadata }) =>
  Observable.create<GraphQLResponse>((sink) => {
    const controller = new AbortController();
    const { signal } = controller;
    const options = { post: metadata?.post === true, signal };
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

const subscribe: SubscribeFunction = (request, variables) =>
  Observable.create<GraphQLResponse>((sink) => {
    let ended = false;
    let unsubscribe: (() => void) | undefined;
    void textOf(request).then((query = "") => {
      if (ended) return;
      unsubscribe = byline.socket.subscribe(
        { query, variables, ...(!query && { documentId: request.id }) },
        {
          next: ({ data, errors }) => {
            if (data && !errors?.length) sink.next({ data }); // else a part of this event could not be read
          },
          error: (reason) => {
            sink.error(Array.isArray(reason) ? new GatewayError(reason as ResponseError[]) : (reason as Error));
          },
          complete: () => {
            sink.complete();
          },
        },
      );
    });
    return () => {
      ended = true;
      unsubscribe?.();
    };
  });

export const environment = new Environment({
  network: Network.create(fetchOperation, subscribe),
  store: new Store(new RecordSource(), { gcReleaseBufferSize: 30 }), // pages to go back to without a request
});
