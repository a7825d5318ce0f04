import type { SubmitEvent } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import { Link } from "wouter";
import type { CommentFormMutation } from "../__generated__/CommentFormMutation.graphql";
import { useAction } from "../session/useAction";
import { useReturn } from "../session/useReturn";
import { useViewer } from "../session/useViewer";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { useDraft } from "../ui/useDraft";
import { pendingId } from "./pending";

const mutation = graphql`
  mutation CommentFormMutation($input: CreateCommentInput!, $connections: [ID!]!) @raw_response_type {
    createComment(input: $input) {
      commentEdge @prependEdge(connections: $connections) {
        cursor
        node {
          id
          content
          author {
            id
          }
          ...Comment_comment
        }
      }
      post {
        id
        commentCount
      }
    }
  }
`;

interface Props {
  postId: string;
  connection: string;
  commentCount: number;
}

/** Adds a comment. It is shown at once; its text and key are kept until the gateway has confirmed it. */
export function CommentForm({ postId, connection, commentCount }: Props) {
  const viewer = useViewer();
  const to = useReturn();
  const { draft, change, withKey, discard } = useDraft(`comment.${postId}`, { content: "" });
  const create = useAction(useMutation<CommentFormMutation>(mutation));
  if (!viewer) return <p className="hint"><Link href={`/signin${to}`}>Sign in</Link> to write a comment.</p>;

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (create.busy || !viewer) return;
    const { content, key } = withKey();
    const comment = {
      id: pendingId(key),
      content,
      contentHtml: "", // only the gateway renders it
      author: viewer,
      createdAt: new Date().toISOString(),
      updatedAt: null,
      viewerCanUpdate: false,
      viewerCanDelete: false,
    };
    create.run({
      variables: { input: { postId, content, idempotencyKey: key }, connections: [connection] },
      optimisticResponse: {
        createComment: {
          commentEdge: { cursor: "", node: comment },
          post: { id: postId, commentCount: commentCount + 1 },
        },
      },
      onCompleted: () => {
        discard();
        announce("Your comment is published.");
      },
    });
  }
  const uncertain = draft.key !== undefined && !create.busy;
  return (
    <form className="comment-form" onSubmit={submit}>
      <label htmlFor="comment">Write a comment</label>
      <textarea
        id="comment"
        dir="auto"
        required
        maxLength={10_000}
        readOnly={create.busy}
        value={create.busy ? "" : draft.content}
        onChange={(event) => { change({ content: event.target.value }); }}
      />
      {uncertain && create.error === undefined && (
        <p className="hint">This comment was being sent. Send it again to be sure: it appears only once.</p>
      )}
      <ErrorNote error={create.error} />
      <SubmitButton busy={create.busy}>{create.busy ? "Sending…" : "Comment"}</SubmitButton>
    </form>
  );
}
