import { useMemo, useState } from "react";
import { fetchQuery, useRelayEnvironment, useSubscription } from "react-relay/hooks";
import type { GraphQLSubscriptionConfig, GraphQLTaggedNode, OperationType } from "relay-runtime";
import { useReadAgain } from "../network/useReadAgain";

interface Post {
  readonly id: string;
  readonly createdAt: string;
}

/** Where the new posts of a list come from. */
export interface Source<Published extends OperationType, Newest extends OperationType> {
  subscription: GraphQLTaggedNode;
  published: (event: Published["response"]) => Post;
  query: GraphQLTaggedNode; // for what was published without a connection
  newest: (response: Newest["response"]) => readonly Post[];
}

interface Props<Published extends OperationType, Newest extends OperationType> {
  source: Source<Published, Newest>; // a constant
  shown: readonly Post[];
  onShow: () => void;
}

/** A button that appears when posts are published that the list does not show. */
export function NewPosts<Published extends OperationType, Newest extends OperationType>(
  { source, shown, onShow }: Props<Published, Newest>,
) {
  const environment = useRelayEnvironment();
  const [published, setPublished] = useState<readonly Post[]>([]);
  const config = useMemo<GraphQLSubscriptionConfig<Published>>(
    () => ({
      subscription: source.subscription,
      variables: {},
      onNext: (event) => { if (event) setPublished((old) => [...old, source.published(event)]); },
    }),
    [source],
  );
  useSubscription(config);
  useReadAgain(() => {
    const networkCacheConfig = { metadata: { post: true } }; // by POST, which no CDN caches
    fetchQuery<Newest>(environment, source.query, {}, { networkCacheConfig }).subscribe({
      next: (response) => { setPublished((old) => [...old, ...source.newest(response)]); },
      error: () => undefined, // the next connection reads again
    });
  });

  const count = newer(published, shown);
  return (
    <div role="status" className="new-posts">
      {count > 0 && (
        <button type="button" className="button primary" onClick={onShow}>
          {count === 1 ? "1 new post" : `${count} new posts`}
        </button>
      )}
    </div>
  );
}

/** Counts the published posts that are newer than those shown. */
function newer(published: readonly Post[], shown: readonly Post[]) {
  const newest = shown[0]?.createdAt ?? "";
  return new Set(published.filter(({ createdAt }) => createdAt > newest).map(({ id }) => id)).size;
}
