import type { SubmitEvent } from "react";
import { graphql, useFragment, useMutation } from "react-relay/hooks";
import type { EditComment_comment$key } from "../__generated__/EditComment_comment.graphql";
import type { EditCommentMutation } from "../__generated__/EditCommentMutation.graphql";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { useDraft } from "../ui/useDraft";

const mutation = graphql`
  mutation EditCommentMutation($input: UpdateCommentInput!) {
    updateComment(input: $input) {
      comment {
        ...EditComment_comment
      }
    }
  }
`;

/** The form that takes the place of a comment's text while its author edits it. */
export function EditComment({ comment, onClose }: { comment: EditComment_comment$key; onClose: () => void }) {
  const { id, content } = useFragment(
    graphql`
      fragment EditComment_comment on Comment {
        id
        content
        contentHtml
        updatedAt
      }
    `,
    comment,
  );
  const { draft, change, discard } = useDraft(`comment.${id}`, { content });
  const update = useAction(useMutation<EditCommentMutation>(mutation));

  function close() {
    discard();
    onClose();
  }
  function submit(event: SubmitEvent) {
    event.preventDefault();
    update.run({ variables: { input: { id, content: draft.content } }, onCompleted: close });
  }
  return (
    <form onSubmit={submit}>
      <label htmlFor={`edit-${id}`} className="visually-hidden">Your comment</label>
      <textarea
        id={`edit-${id}`}
        dir="auto"
        required
        maxLength={10_000}
        value={draft.content}
        onChange={(event) => { change({ content: event.target.value }); }}
      />
      <ErrorNote error={update.error} />
      <div className="actions">
        <SubmitButton busy={update.busy}>Save</SubmitButton>
        <button type="button" className="button" onClick={close}>Cancel</button>
      </div>
    </form>
  );
}
