import relay, { type INetwork, type RequestParameters, type Variables } from "relay-runtime";
import type { Byline } from "./index.js";

/** Queries and mutations by HTTP, subscriptions over the socket; persisted documents by their id. */
export const createNetwork = (byline: Byline): INetwork =>
  relay.Network.create(
    async (request, variables) => (await byline.execute(operation(request, variables))) as any,
    (request, variables) =>
      relay.Observable.create<any>((sink) =>
        byline.socket.subscribe(operation(request, variables), {
          ...sink,
          // Relay makes its error of a response without data, as of those by HTTP.
          error: (reason) => (Array.isArray(reason) ? sink.next({ data: null, errors: reason }) : sink.error(reason as Error)),
        }),
      ),
  );

const operation = ({ id, text }: RequestParameters, variables: Variables) =>
  ({ ...(text ? { query: text } : { documentId: id ?? "" }), variables });
