import { graphql, useFragment, useMutation } from "react-relay/hooks";
import type { LikeButton_post$key } from "../__generated__/LikeButton_post.graphql";
import type { LikeButtonLikeMutation } from "../__generated__/LikeButtonLikeMutation.graphql";
import type { LikeButtonUnlikeMutation } from "../__generated__/LikeButtonUnlikeMutation.graphql";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";

const likeMutation = graphql`
  mutation LikeButtonLikeMutation($input: LikePostInput!) {
    likePost(input: $input) {
      post {
        id
        likeCount
        viewerHasLiked
      }
    }
  }
`;

const unlikeMutation = graphql`
  mutation LikeButtonUnlikeMutation($input: UnlikePostInput!) {
    unlikePost(input: $input) {
      post {
        id
        likeCount
        viewerHasLiked
      }
    }
  }
`;

/** Likes a post, or takes the like back; the count changes at once, and back if the gateway refuses. */
export function LikeButton({ post }: { post: LikeButton_post$key }) {
  const { id, likeCount, viewerHasLiked } = useFragment(
    graphql`
      fragment LikeButton_post on Post
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        id
        likeCount
        viewerHasLiked @include(if: $signedIn)
      }
    `,
    post,
  );
  const like = useAction(useMutation<LikeButtonLikeMutation>(likeMutation));
  const unlike = useAction(useMutation<LikeButtonUnlikeMutation>(unlikeMutation));
  const variables = { input: { postId: id } };

  function toggle() {
    if (like.busy || unlike.busy) return;
    const changed = (by: number) => ({ post: { id, likeCount: likeCount + by, viewerHasLiked: by > 0 } });
    if (viewerHasLiked) unlike.run({ variables, optimisticResponse: { unlikePost: changed(-1) } });
    else like.run({ variables, optimisticResponse: { likePost: changed(1) } });
  }

  return (
    <div className="like">
      <button type="button" className="button" aria-pressed={viewerHasLiked ?? false} onClick={toggle}>
        <span aria-hidden="true">{viewerHasLiked ? "♥" : "♡"}</span> {viewerHasLiked ? "Liked" : "Like"}
      </button>
      <span>{likeCount === 1 ? "1 like" : `${likeCount} likes`}</span>
      <ErrorNote error={like.error ?? unlike.error} />
    </div>
  );
}
