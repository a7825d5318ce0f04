import { useMutation } from "@apollo/client/react";
import { LIKE, UNLIKE } from "./documents.ts";

export function Like({ id, likeCount, viewerHasLiked }: { id: string; likeCount: number; viewerHasLiked?: boolean | null }) {
  const post = { __typename: "Post", id, likeCount: likeCount + (viewerHasLiked ? -1 : 1), viewerHasLiked: !viewerHasLiked } as const;
  const options = { variables: { id }, errorPolicy: "all" } as const;
  const [like] = useMutation(LIKE, { ...options, optimisticResponse: { likePost: { __typename: "LikePostPayload", post } } });
  const [unlike] = useMutation(UNLIKE, { ...options, optimisticResponse: { unlikePost: { __typename: "UnlikePostPayload", post } } });
  return <button aria-pressed={!!viewerHasLiked} onClick={() => (viewerHasLiked ? unlike() : like())}>Like ({likeCount})</button>;
}
