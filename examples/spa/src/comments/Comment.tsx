import { useState } from "react";
import { graphql, useFragment } from "react-relay/hooks";
import type { Comment_comment$key } from "../__generated__/Comment_comment.graphql";
import { AuthorLink } from "../author/AuthorLink";
import { Html } from "../ui/Html";
import { Time } from "../ui/Time";
import { DeleteComment } from "./DeleteComment";
import { EditComment } from "./EditComment";

interface Props {
  comment: Comment_comment$key;
  pending: boolean;
}

export function Comment({ comment, pending }: Props) {
  const data = useFragment(
    graphql`
      fragment Comment_comment on Comment
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        id
        content
        contentHtml
        createdAt
        updatedAt
        viewerCanUpdate @include(if: $signedIn)
        viewerCanDelete @include(if: $signedIn)
        author {
          ...AuthorLink_user
        }
        ...EditComment_comment
      }
    `,
    comment,
  );
  const { id, content, contentHtml, createdAt, updatedAt, author, viewerCanUpdate, viewerCanDelete } = data;
  const [editing, setEditing] = useState(false);
  return (
    <article className="comment" aria-busy={pending}>
      <header className="author-line">
        <AuthorLink user={author} />
        {pending ? <span>Sending…</span> : <Time value={createdAt} />}
        {updatedAt && <span>edited <Time value={updatedAt} /></span>}
      </header>
      {editing && <EditComment comment={data} onClose={() => { setEditing(false); }} />}
      {!editing && pending && <p className="text" dir="auto">{content}</p>}
      {!editing && !pending && <Html html={contentHtml} className="text" />}
      {viewerCanDelete && !editing && (
        <footer>
          {viewerCanUpdate && (
            <button type="button" className="link" onClick={() => { setEditing(true); }}>Edit</button>
          )}
          <DeleteComment id={id} />
        </footer>
      )}
    </article>
  );
}
