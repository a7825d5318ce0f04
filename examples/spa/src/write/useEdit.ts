import { useState } from "react";
import { fetchQuery, graphql, useFragment, useMutation, useRelayEnvironment } from "react-relay/hooks";
import type { useEdit_post$key } from "../__generated__/useEdit_post.graphql";
import type { useEditMutation } from "../__generated__/useEditMutation.graphql";
import type { useEditQuery } from "../__generated__/useEditQuery.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { tagText } from "../tag/tags";
import { useDraft } from "../ui/useDraft";
import { postInput } from "./postInput";

const fragment = graphql`
  fragment useEdit_post on Post {
    id
    title
    content
    contentHtml
    tags
    seoTitle
    seoDescription
    canonicalUrl
    coverImage {
      url
      alt
    }
    version
  }
`;

const mutation = graphql`
  mutation useEditMutation($input: UpdatePostInput!) {
    updatePost(input: $input) {
      post {
        slug
        version
        ...Post_post
        ...useEdit_post
      }
    }
  }
`;

const query = graphql`
  query useEditQuery($id: ID!) {
    post(id: $id) {
      ...useEdit_post
    }
  }
`;

export type Saved = NonNullable<useEditMutation["response"]["updatePost"]>["post"];

/** Edits the version of a post or draft with which the edit began, until the author settles a conflict. */
export function useEdit(post: useEdit_post$key) {
  const { id, title, content, contentHtml, tags, coverImage, version, ...search } = useFragment(fragment, post);
  const current = {
    title,
    content: content ?? "",
    tags: tagText(tags),
    seoTitle: search.seoTitle ?? "",
    seoDescription: search.seoDescription ?? "",
    canonicalUrl: search.canonicalUrl ?? "",
    coverUrl: coverImage?.url ?? "",
    coverAlt: coverImage?.alt ?? "",
    version,
  };
  const { draft, change, discard } = useDraft(`post.${id}`, current);
  const update = useAction(useMutation<useEditMutation>(mutation));
  const environment = useRelayEnvironment();
  const [refused, setRefused] = useState(false);

  function save(done: (post: Saved) => void) {
    update.run({
      variables: {
        input: { id, ...postInput(draft), version: draft.version },
      },
      onCompleted: ({ updatePost }) => { if (updatePost) done(updatePost.post); },
      onError: (error) => {
        if (codeOf(error) !== "CONFLICT") return;
        fetchQuery<useEditQuery>(environment, query, { id }).subscribe({
          complete: () => { setRefused(true); },
          error: () => { setRefused(true); },
        });
      },
    });
  }
  // The version of a post that another window has edited, or that an attempt has written whose response was lost.
  const conflict = (refused || update.error === undefined) && current.version !== draft.version && !update.busy;
  const saved = JSON.stringify(postInput(current)) === JSON.stringify(postInput(draft));
  return { id, current, html: contentHtml ?? "", draft, change, discard, save, update, conflict, saved };
}
