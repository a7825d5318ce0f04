import { useEffect, useEffectEvent, useState } from "react";
import { graphql, useFragment, useMutation } from "react-relay/hooks";
import { useLocation } from "wouter";
import type { EditDraft_post$key } from "../__generated__/EditDraft_post.graphql";
import type { EditDraftPublishMutation } from "../__generated__/EditDraftPublishMutation.graphql";
import { DeletePost } from "../post/DeletePost";
import { useAction } from "../session/useAction";
import { invalidTags } from "../tag/tags";
import { announce } from "../ui/announce";
import { Conflict } from "./Conflict";
import { PostForm } from "./PostForm";
import { postInput } from "./postInput";
import { useEdit } from "./useEdit";
import { usePending } from "./usePending";

const publishMutation = graphql`
  mutation EditDraftPublishMutation($input: PublishPostInput!) {
    publishPost(input: $input) {
      post {
        slug
        ...Post_post
      }
    }
  }
`;

const rest = 1500; // milliseconds without a key, after which the draft is saved

/** The form for a draft, which is saved as its author types. */
export function EditDraft({ post }: { post: EditDraft_post$key }) {
  const data = useFragment(graphql`fragment EditDraft_post on Post { ...useEdit_post }`, post);
  const edit = useEdit(data);
  const { id, draft, change, update, conflict, saved } = edit;
  const publication = useAction(useMutation<EditDraftPublishMutation>(publishMutation));
  const [, navigate] = useLocation();
  const [refused, setRefused] = useState(""); // the text that the gateway did not accept

  const text = JSON.stringify([postInput(draft), draft.version]);
  const uploading = usePending(draft.content);
  const complete = draft.title !== "" && draft.content !== "" && !invalidTags(draft.tags) && !uploading;
  // An edit after a publication whose response was lost would be one of the post.
  const publishing = publication.busy || publication.error !== undefined;
  const savable = complete && !saved && !conflict && !update.busy && !publishing && text !== refused;

  const save = useEffectEvent(() => {
    setRefused(text);
    edit.save(({ version }) => {
      setRefused("");
      change({ version });
    });
  });
  useEffect(() => {
    if (!savable) return;
    const timer = setTimeout(save, rest);
    return () => { clearTimeout(timer); };
  }, [savable, text]);

  function publish() {
    publication.run({
      variables: { input: { id } },
      onCompleted: ({ publishPost }) => {
        if (!publishPost) return;
        edit.discard();
        announce("Your post is published.");
        navigate(`/posts/${publishPost.post.slug}`, { replace: true });
      },
    });
  }
  function submit() {
    if (saved) publish();
    else edit.save(({ version }) => {
      change({ version });
      publish();
    });
  }
  function deleted() {
    edit.discard();
    announce("The draft is deleted.");
    navigate("/drafts", { replace: true });
  }
  return (
    <>
      {conflict && <Conflict edit={edit} />}
      <PostForm
        fields={draft}
        onChange={change}
        onSubmit={submit}
        busy={publication.busy}
        error={conflict ? undefined : (publication.error ?? update.error)}
        action={publication.busy ? "Publishing…" : "Publish"}
      >
        <DeletePost id={id} onDeleted={deleted} />
        <span className="hint">{saved ? "Saved as a draft." : update.busy ? "Saving…" : "Not saved yet."}</span>
      </PostForm>
    </>
  );
}
