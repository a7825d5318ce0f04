import { useState } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import { useLocation } from "wouter";
import type { WritePageMutation } from "../__generated__/WritePageMutation.graphql";
import { PageHeading } from "../app/PageHeading";
import { useAction } from "../session/useAction";
import { invalidTags } from "../tag/tags";
import { announce } from "../ui/announce";
import { useDraft } from "../ui/useDraft";
import { noFields, PostForm } from "./PostForm";
import { postInput } from "./postInput";
import { usePending } from "./usePending";

const mutation = graphql`
  mutation WritePageMutation($input: CreatePostInput!) {
    createPost(input: $input) {
      post {
        id
        slug
        isDraft
        ...Post_post
      }
    }
  }
`;

export default function WritePage() {
  const { draft, change, withKey, discard } = useDraft("post", noFields);
  const create = useAction(useMutation<WritePageMutation>(mutation));
  const [, navigate] = useLocation();
  const [edition, setEdition] = useState(0); // of the form: a new one has no uploads

  function send(isDraft: boolean) {
    const { key, ...fields } = withKey();
    create.run({
      variables: { input: { ...postInput(fields), draft: isDraft, idempotencyKey: key } },
      onCompleted: ({ createPost }) => {
        if (!createPost) return;
        discard();
        const { id, slug, isDraft } = createPost.post;
        announce(isDraft ? "Your draft is saved." : "Your post is published.");
        navigate(isDraft ? `/drafts/${id}` : `/posts/${slug}`, { replace: true });
      },
    });
  }
  function again() {
    discard();
    setEdition(edition + 1);
  }
  const empty = JSON.stringify(postInput(draft)) === JSON.stringify(postInput(noFields));
  const uploading = usePending(draft.content);
  const complete = draft.title !== "" && draft.content !== "" && !invalidTags(draft.tags) && !uploading;
  return (
    <section className="page wide">
      <PageHeading title="Write a post" hidden />
      <PostForm
        key={edition}
        fields={draft}
        onChange={change}
        onSubmit={() => { send(false); }}
        busy={create.busy}
        error={create.error}
        action={create.busy ? "One moment…" : "Publish"}
      >
        {!empty && !create.busy && (
          <>
            <button type="button" className="button" disabled={!complete} onClick={() => { send(true); }}>
              Save as a draft
            </button>
            <button type="button" className="button" onClick={again}>Discard</button>
          </>
        )}
      </PostForm>
    </section>
  );
}
