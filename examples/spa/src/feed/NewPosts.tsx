import { useMemo, useState } from "react";
import { fetchQuery, graphql, useRelayEnvironment, useSubscription } from "react-relay/hooks";
import type { GraphQLSubscriptionConfig } from "relay-runtime";
import type { NewPostsQuery } from "../__generated__/NewPostsQuery.graphql";
import type { NewPostsSubscription } from "../__generated__/NewPostsSubscription.graphql";
import { useReadAgain } from "../network/useReadAgain";

interface Post {
  readonly id: string;
  readonly createdAt: string;
}

const subscription = graphql`
  subscription NewPostsSubscription {
    postPublished {
      id
      createdAt
    }
  }
`;

const newestQuery = graphql`
  query NewPostsQuery {
    feed(first: 20) {
      edges {
        node {
          id
          createdAt
        }
      }
    }
  }
`;

/** A button that appears when posts are published that the list does not show. */
export function NewPosts({ shown, onShow }: { shown: readonly Post[]; onShow: () => void }) {
  const environment = useRelayEnvironment();
  const [published, setPublished] = useState<readonly Post[]>([]);
  const config = useMemo<GraphQLSubscriptionConfig<NewPostsSubscription>>(
    () => ({
      subscription,
      variables: {},
      onNext: (event) => { if (event) setPublished((old) => [...old, event.postPublished]); },
    }),
    [],
  );
  useSubscription(config);
  useReadAgain(() => {
    const networkCacheConfig = { metadata: { post: true } }; // by POST, which no CDN caches
    fetchQuery<NewPostsQuery>(environment, newestQuery, {}, { networkCacheConfig }).subscribe({
      next: ({ feed }) => { setPublished((old) => [...old, ...feed.edges.map(({ node }) => node)]); },
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
