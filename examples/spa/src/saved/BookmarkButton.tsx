import { graphql, useFragment, useMutation } from "react-relay/hooks";
import type { BookmarkButton_post$key } from "../__generated__/BookmarkButton_post.graphql";
import type { BookmarkButtonAddMutation } from "../__generated__/BookmarkButtonAddMutation.graphql";
import type { BookmarkButtonRemoveMutation } from "../__generated__/BookmarkButtonRemoveMutation.graphql";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";
import "./saved.css";

const addMutation = graphql`
  mutation BookmarkButtonAddMutation($input: BookmarkPostInput!) {
    bookmarkPost(input: $input) {
      post {
        id
        viewerHasBookmarked
      }
    }
  }
`;

const removeMutation = graphql`
  mutation BookmarkButtonRemoveMutation($input: RemoveBookmarkInput!) {
    removeBookmark(input: $input) {
      post {
        id
        viewerHasBookmarked
      }
    }
  }
`;

/** Bookmarks a post, or removes the bookmark; it changes at once, and back if the gateway refuses. */
export function BookmarkButton({ post }: { post: BookmarkButton_post$key }) {
  const { id, viewerHasBookmarked } = useFragment(
    graphql`
      fragment BookmarkButton_post on Post
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        id
        viewerHasBookmarked @include(if: $signedIn)
      }
    `,
    post,
  );
  const add = useAction(useMutation<BookmarkButtonAddMutation>(addMutation));
  const remove = useAction(useMutation<BookmarkButtonRemoveMutation>(removeMutation));
  const variables = { input: { id } };

  function toggle() {
    if (add.busy || remove.busy) return;
    const changed = { post: { id, viewerHasBookmarked: !viewerHasBookmarked } };
    if (viewerHasBookmarked) remove.run({ variables, optimisticResponse: { removeBookmark: changed } });
    else add.run({ variables, optimisticResponse: { bookmarkPost: changed } });
  }

  return (
    <div className="bookmark">
      <button type="button" className="button" aria-pressed={viewerHasBookmarked ?? false} onClick={toggle}>
        <svg viewBox="0 0 12 16" aria-hidden="true"><path d="M1.5 1h9v13.5L6 10.75 1.5 14.5z" /></svg>
        {viewerHasBookmarked ? "Bookmarked" : "Bookmark"}
      </button>
      <ErrorNote error={add.error ?? remove.error} />
    </div>
  );
}
