import { useMemo } from "react";
import { fetchQuery, graphql, useRelayEnvironment, useSubscription } from "react-relay/hooks";
import { commitLocalUpdate, ConnectionHandler, type GraphQLSubscriptionConfig, type RecordProxy } from "relay-runtime";
import type { useLiveCommentsQuery } from "../__generated__/useLiveCommentsQuery.graphql";
import type { useLiveCommentsSubscription } from "../__generated__/useLiveCommentsSubscription.graphql";
import { useReadAgain } from "../network/useReadAgain";
import { announce } from "../ui/announce";

const subscription = graphql`
  subscription useLiveCommentsSubscription($postId: ID!, $connections: [ID!]!) {
    commentChanged(postId: $postId) {
      kind
      comment {
        ...Comment_comment
        author {
          id
          displayName
        }
      }
      commentEdge @prependEdge(connections: $connections) {
        cursor
        node {
          id
          content
          createdAt
        }
      }
      deletedCommentId @deleteRecord
    }
  }
`;

const newestQuery = graphql`
  query useLiveCommentsQuery($postId: ID!) {
    post(id: $postId) {
      likeCount
      commentCount
      comments(first: 20) {
        edges {
          node {
            id
            content
            createdAt
            author {
              id
            }
            ...Comment_comment
          }
        }
      }
    }
  }
`;

/** Keeps a list of comments up to date with what others write, and the viewer in other tabs. */
export function useLiveComments(postId: string, connection: string, viewerId: string | undefined) {
  const environment = useRelayEnvironment();
  const config = useMemo<GraphQLSubscriptionConfig<useLiveCommentsSubscription>>(
    () => ({
      subscription,
      variables: { postId, connections: [connection] },
      onNext: (event) => {
        if (event?.commentChanged.kind !== "ADDED") return;
        const author = event.commentChanged.comment?.author;
        if (author && author.id !== viewerId) announce(`New comment by ${author.displayName}`);
      },
    }),
    [postId, connection, viewerId],
  );
  useSubscription(config);
  useReadAgain(() => {
    const networkCacheConfig = { metadata: { post: true } }; // by POST, which no CDN caches
    fetchQuery<useLiveCommentsQuery>(environment, newestQuery, { postId }, { networkCacheConfig })
      .subscribe({
        next: ({ post }) => {
          commitLocalUpdate(environment, (store) => {
            const list = store.get(connection);
            if (!list || !post) return;
            const read = post.comments.edges.map(({ node }) => store.get(node.id)).filter((comment) => comment != null);
            merge(read, list, (comment) => ConnectionHandler.createEdge(store, list, comment, "CommentEdge"));
          });
        },
        error: () => undefined, // the next connection reads again
      });
  });
}

const nodeOf = (edge: RecordProxy): RecordProxy | null => edge.getLinkedRecord("node"); // null if it is deleted

/** Adds the comments to the list that it does not have, in their order. */
function merge(comments: RecordProxy[], list: RecordProxy, edgeOf: (comment: RecordProxy) => RecordProxy) {
  const edges = list.getLinkedRecords("edges");
  const known = new Set(edges.map((edge) => nodeOf(edge)?.getDataID()));
  const missing = comments.filter((comment) => !known.has(comment.getDataID()));
  if (missing.length === 0) return;
  const date = (edge: RecordProxy) => String(nodeOf(edge)?.getValue("createdAt"));
  const all = [...missing.map(edgeOf), ...edges];
  list.setLinkedRecords(all.toSorted((a, b) => date(b).localeCompare(date(a))), "edges");
}
