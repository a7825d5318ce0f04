import { graphql, useFragment } from "react-relay/hooks";
import { useLocation } from "wouter";
import type { DeleteAuthor_query$key } from "../__generated__/DeleteAuthor_query.graphql";
import { DeleteAccount } from "../settings/DeleteAccount";
import { announce } from "../ui/announce";

interface Props {
  query: DeleteAuthor_query$key;
  author: { id: string; username: string };
}

/** Has moderators delete an author. */
export function DeleteAuthor({ query, author }: Props) {
  const { viewer, viewerIsModerator } = useFragment(
    graphql`
      fragment DeleteAuthor_query on Query
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        viewer @include(if: $signedIn) {
          id
        }
        viewerIsModerator @include(if: $signedIn)
      }
    `,
    query,
  );
  const [, navigate] = useLocation();
  if (!viewerIsModerator || viewer?.id === author.id) return null;

  function deleted() {
    announce("The user is deleted.");
    navigate("/", { replace: true });
  }
  return (
    <details className="moderation">
      <summary>Moderate</summary>
      <DeleteAccount user={author} onDeleted={deleted} />
    </details>
  );
}
