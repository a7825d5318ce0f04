import { useMemo, useState } from "react";
import { graphql, useSubscription } from "react-relay/hooks";
import type { GraphQLSubscriptionConfig } from "relay-runtime";
import type { useLivePostSubscription } from "../__generated__/useLivePostSubscription.graphql";
import { codeOf } from "../network/errors";

const subscription = graphql`
  subscription useLivePostSubscription($id: ID!) {
    postChanged(id: $id) {
      id
      title
      content
      updatedAt
      version
      likeCount
      commentCount
    }
  }
`;

/** Keeps a post up to date. Returns whether it has been deleted meanwhile. */
export function useLivePost(id: string) {
  const [deleted, setDeleted] = useState(false);
  const config = useMemo<GraphQLSubscriptionConfig<useLivePostSubscription>>(
    () => ({
      subscription,
      variables: { id },
      onError: (error) => { if (codeOf(error) === "NOT_FOUND") setDeleted(true); },
      onCompleted: () => { setDeleted(true); },
    }),
    [id],
  );
  useSubscription(config);
  return deleted;
}
