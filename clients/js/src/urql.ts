import { subscriptionExchange, type Exchange } from "@urql/core";
import type { Byline } from "./index.js";

/** Carries subscriptions over the socket. */
export const socketExchange = (byline: Byline): Exchange =>
  subscriptionExchange({
    forwardSubscription: ({ query = "", ...operation }) => ({
      subscribe: (sink) => ({ unsubscribe: byline.socket.subscribe({ query, ...operation }, sink) }),
    }),
  });
