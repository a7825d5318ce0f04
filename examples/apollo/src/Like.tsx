import { useMutation } from "@apollo/client/react";
import { LIKE, UNLIKE } from "./documents.ts";

export function Like({ id, likeCount, viewerHasLiked }: { id: string; likeCount: number; viewerHasLiked?: boolean | null }) {
  const post = { __typename: "Post", id, likeCount: likeCount + (viewerHasLiked ? -1 : 1), viewerHasLiked: !viewerHasLiked } as const;
  const options = { variables: { id }, errorPolicy: "all" } as const;
  const [like, liking] = useMutation(LIKE, { ...options, optimisticResponse: { likePost: { __typename: "LikePostPayload", post } } });
  const [unlike, unliking] = useMutation(UNLIKE, { ...options, optimisticResponse: { unlikePost: { __typename: "UnlikePostPayload", post } } });
  const { error } = viewerHasLiked ? unliking : liking;
  return (
    <p>
      <button aria-pressed={!!viewerHasLiked} disabled={viewerHasLiked == null} onClick={() => (viewerHasLiked ? unlike() : like())}>
        Like ({likeCount})
      </button> {error?.message}
    </p>
  );
}
