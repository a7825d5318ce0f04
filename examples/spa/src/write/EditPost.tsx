import { useState } from "react";
import { fetchQuery, graphql, useFragment, useMutation, useRelayEnvironment } from "react-relay/hooks";
import { Link, useLocation } from "wouter";
import type { EditPost_post$key } from "../__generated__/EditPost_post.graphql";
import type { EditPostMutation } from "../__generated__/EditPostMutation.graphql";
import type { EditPostQuery } from "../__generated__/EditPostQuery.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { tagsOf, tagText } from "../tag/tags";
import { announce } from "../ui/announce";
import { useDraft } from "../ui/useDraft";
import { Conflict } from "./Conflict";
import { PostForm } from "./PostForm";

const mutation = graphql`
  mutation EditPostMutation($input: UpdatePostInput!) {
    updatePost(input: $input) {
      post {
        slug
        ...Post_post
        ...EditPost_post
      }
    }
  }
`;

const query = graphql`
  query EditPostQuery($id: ID!) {
    post(id: $id) {
      ...EditPost_post
    }
  }
`;

/** The form for a post. It edits the version with which the edit began, until the author settles a conflict. */
export function EditPost({ post }: { post: EditPost_post$key }) {
  const { id, slug, title, content, contentHtml, tags, version } = useFragment(
    graphql`
      fragment EditPost_post on Post {
        id
        slug
        title
        content
        contentHtml
        tags
        version
      }
    `,
    post,
  );
  const current = { title, content: content ?? "", tags: tagText(tags), version };
  const { draft, change, discard } = useDraft(`post.${id}`, current);
  const update = useAction(useMutation<EditPostMutation>(mutation));
  const environment = useRelayEnvironment();
  const [refused, setRefused] = useState(false);
  const [, navigate] = useLocation();

  function done(next: string) {
    discard();
    announce("Your changes are published.");
    navigate(`/posts/${next}`, { replace: true });
  }
  function save() {
    update.run({
      variables: {
        input: { id, title: draft.title, content: draft.content, tags: tagsOf(draft.tags), version: draft.version },
      },
      onCompleted: ({ updatePost }) => { done(updatePost?.post.slug ?? slug); }, // of the new title
      onError: (error) => {
        if (codeOf(error) !== "CONFLICT") return;
        fetchQuery<EditPostQuery>(environment, query, { id }, { networkCacheConfig: { force: true } }).subscribe({
          complete: () => { setRefused(true); },
          error: () => { setRefused(true); },
        });
      },
    });
  }

  // The version of a post that another window has edited, or that an attempt has written whose response was lost.
  const conflict = (refused || update.error === undefined) && current.version !== draft.version && !update.busy;
  const saved = current.title === draft.title && current.content === draft.content &&
    current.tags === tagText(tagsOf(draft.tags));
  return (
    <>
      {conflict && (
        <Conflict
          current={current}
          html={contentHtml ?? ""}
          saved={saved}
          onKeep={() => { change({ version: current.version }); }}
          onTake={() => { change(current); }}
        />
      )}
      <PostForm
        fields={draft}
        onChange={change}
        onSubmit={save}
        busy={update.busy}
        error={conflict ? undefined : update.error}
        action={update.busy ? "Saving…" : "Save"}
      >
        <Link href={`/posts/${slug}`} className="button" onClick={discard}>Cancel</Link>
      </PostForm>
    </>
  );
}
