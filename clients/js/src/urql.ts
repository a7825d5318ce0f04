import { subscriptionExchange, type Exchange } from "@urql/core";
import type { Byline, Sink } from "./index.js";

/** Carries subscriptions over the socket. */
export const socketExchange = (byline: Byline): Exchange =>
  subscriptionExchange({
    forwardSubscription: (operation) => ({
      subscribe: (sink) => ({ unsubscribe: byline.socket.subscribe(operation, sink as Sink<any>) }),
    }),
  });
