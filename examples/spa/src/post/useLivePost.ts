import { useEffect, useMemo, useState } from "react";
import { graphql, useRelayEnvironment, useSubscription } from "react-relay/hooks";
import { commitLocalUpdate, type GraphQLSubscriptionConfig } from "relay-runtime";
import type { useLivePostDeletedSubscription } from "../__generated__/useLivePostDeletedSubscription.graphql";
import type { useLivePostSubscription } from "../__generated__/useLivePostSubscription.graphql";
import { codeOf } from "../network/errors";

// Without the slug, which follows the title: the address of a page stays until the reader leaves it.
const changed = graphql`
  subscription useLivePostSubscription($id: ID!) {
    postChanged(id: $id) {
      id
      title
      contentHtml
      coverImage {
        url
        alt
        width
        height
      }
      readingMinutes
      updatedAt
      version
      likeCount
      commentCount
    }
  }
`;

const deletion = graphql`
  subscription useLivePostDeletedSubscription($id: ID!) {
    postDeleted(id: $id) {
      deletedPostId
    }
  }
`;

/** Keeps a post up to date. Returns whether it has been deleted meanwhile: then it stays until the reader leaves it. */
export function useLivePost(id: string) {
  const environment = useRelayEnvironment();
  const [deleted, setDeleted] = useState(false);
  useSubscription(
    useMemo<GraphQLSubscriptionConfig<useLivePostSubscription>>(
      () => ({ subscription: changed, variables: { id }, onError: () => undefined }),
      [id],
    ),
  );
  useSubscription(
    useMemo<GraphQLSubscriptionConfig<useLivePostDeletedSubscription>>(
      () => ({
        subscription: deletion,
        variables: { id },
        onNext: () => { setDeleted(true); },
        onError: (error) => { if (codeOf(error) === "NOT_FOUND") setDeleted(true); }, // while there was no connection
      }),
      [id],
    ),
  );
  useEffect(() => {
    if (!deleted) return;
    return () => { commitLocalUpdate(environment, (store) => { store.delete(id); }); };
  }, [deleted, environment, id]);
  return deleted;
}
