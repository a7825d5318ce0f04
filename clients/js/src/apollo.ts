import {
  ApolloLink, HttpLink, type ApolloCache, type ApolloClient, type FieldPolicy, type InMemoryCacheConfig, type OperationVariables,
  type Reference, type StoreObject,
} from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import type { Byline } from "./index.js";

/** Sends queries and mutations by HTTP, subscriptions over the socket. */
export const createLink = (byline: Byline): ApolloLink =>
  ApolloLink.split(
    ({ operationType }) => operationType === "subscription",
    new GraphQLWsLink(byline.socket as ConstructorParameters<typeof GraphQLWsLink>[0]),
    new HttpLink({ uri: byline.url, fetch: byline.fetch }),
  );

interface List extends StoreObject {
  edges?: StoreObject[];
  pageInfo?: { endCursor?: string | null; hasNextPage?: boolean };
}

/**
 * The policy of a connection: fetchMore appends a page. A page that is read again, as by a refetch, replaces what the list
 * has from the page's first to its last edge; the pages after it stay. If the list does not have the page's last edge, edges
 * between the two may be missing, so the rest of the list is dropped.
 */
export const connection = (keyArgs: FieldPolicy["keyArgs"] = false): FieldPolicy<List> => ({
  keyArgs,
  read: (list, { canRead, readField }) => // without the edges of evicted nodes
    list?.edges ? { ...list, edges: list.edges.filter((edge) => canRead(readField("node", edge))) } : list,
  merge(old, page, { args, readField }) {
    if (!page.edges) return { ...old, ...page };
    const idOf = (edge?: StoreObject) => readField<Reference>("node", edge)?.__ref;
    const { endCursor: cursor, hasNextPage } = page.pageInfo ?? {};
    const edges = page.edges.map((edge, i) => (cursor && i === page.edges!.length - 1 ? { ...edge, cursor } : edge));
    if (!old?.edges) return { ...old, ...page, edges };
    const start = args?.["after"] ? old.edges.findIndex((edge) => edge["cursor"] === args["after"]) + 1 || old.edges.length : 0;
    const end = old.edges.findLastIndex((edge) => idOf(edge) === idOf(edges.at(-1))) + 1;
    const ids = new Set(edges.map(idOf));
    const isOther = (edge: StoreObject) => !ids.has(idOf(edge));
    const rest = hasNextPage !== false && end > start ? old.edges.slice(end).filter(isOther) : [];
    const all = [...old.edges.slice(0, start).filter(isOther), ...edges, ...rest];
    return { ...old, ...page, edges: all, ...(rest.length > 0 && { pageInfo: old.pageInfo }) };
  },
});

/** The options of InMemoryCache for the gateway's schema. */
export const cacheConfig: InMemoryCacheConfig = {
  possibleTypes: { Node: ["User", "Post", "Comment", "Like", "Tag"] },
  typePolicies: {
    Query: { fields: { feed: connection() } },
    User: { fields: { posts: connection(), drafts: connection() } },
    Tag: { fields: { posts: connection() } },
    Post: { fields: { comments: connection(["order"]), likes: connection() } },
  },
};

/**
 * Puts an edge, such as that of a payload, at the top of a list in the cache, once: of a field of the root, or of the object
 * parent.
 */
export function prepend(cache: ApolloCache, field: string, edge: { node: object; cursor?: string }, parent?: StoreObject) {
  cache.modify<Record<string, List>>({
    id: parent ? cache.identify(parent)! : "ROOT_QUERY",
    fields: {
      [field]: (value, { readField, toReference, storeFieldName }) => {
        const list = value as List;
        if (!list.edges || storeFieldName.includes("OLDEST_FIRST")) return list;
        const node = toReference(edge.node as StoreObject, true);
        const others = list.edges.filter((other) => readField<Reference>("node", other)?.__ref !== node?.__ref);
        const __typename = `${readField<string>("__typename", node)}Edge`;
        return { ...list, edges: [{ __typename, cursor: "", ...edge, node }, ...others] };
      },
    },
  });
}

interface Live<Data, Variables extends OperationVariables, Event, EventVariables extends OperationVariables> {
  /** The query of the list: its first page is read again whenever events may have been missed. */
  list: ApolloClient.QueryOptions<Data, Variables>;
  events: ApolloClient.SubscribeOptions<Event, EventVariables>;
  /** Puts an event into the cache, as by prepend. */
  next?: (event: Event) => void;
  /** Called when the subscription ends with an error, or the list is not read; by default console.error. */
  error?: (reason: unknown) => void;
}

/** Keeps a list in the cache current until the function that it returns is called. */
export function live<Data, Variables extends OperationVariables, Event, EventVariables extends OperationVariables>(
  client: ApolloClient,
  byline: Byline,
  { list, events, next, error = console.error }: Live<Data, Variables, Event, EventVariables>,
) {
  const subscription = client.subscribe<any, any>(events).subscribe({
    next: (result) => (result.error ? error(result.error) : next?.(result.data)),
  });
  const stop = byline.readAgain(() => {
    client.query<any, any>({ ...list, fetchPolicy: "network-only" } as ApolloClient.QueryOptions).catch(error);
  });
  return () => {
    subscription.unsubscribe();
    stop();
  };
}
