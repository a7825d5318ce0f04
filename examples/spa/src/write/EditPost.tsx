import { graphql, useFragment } from "react-relay/hooks";
import { Link, useLocation } from "wouter";
import type { EditPost_post$key } from "../__generated__/EditPost_post.graphql";
import { announce } from "../ui/announce";
import { Conflict } from "./Conflict";
import { PostForm } from "./PostForm";
import { useEdit } from "./useEdit";

/** The form for a published post. */
export function EditPost({ post }: { post: EditPost_post$key }) {
  const { slug, ...data } = useFragment(
    graphql`
      fragment EditPost_post on Post {
        slug
        ...useEdit_post
      }
    `,
    post,
  );
  const edit = useEdit(data);
  const { draft, change, update, conflict } = edit;
  const [, navigate] = useLocation();

  function save() {
    edit.save((post) => {
      edit.discard();
      announce("Your changes are published.");
      navigate(`/posts/${post.slug}`, { replace: true });
    });
  }
  return (
    <>
      {conflict && <Conflict edit={edit} />}
      <PostForm
        fields={draft}
        onChange={change}
        onSubmit={save}
        busy={update.busy}
        error={conflict ? undefined : update.error}
        action={update.busy ? "Saving…" : "Save"}
      >
        <Link href={`/posts/${slug}`} className="button" onClick={edit.discard}>Cancel</Link>
      </PostForm>
    </>
  );
}
