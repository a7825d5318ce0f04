import { useMutation } from "@apollo/client/react";
import { prepend } from "byline-client/apollo";
import { useState } from "react";
import { COMMENT } from "./documents.ts";

const draft = (content: string) => ({ content, idempotencyKey: crypto.randomUUID() as string });

export function CommentForm({ postId }: { postId: string }) {
  const [input, setInput] = useState(() => draft(""));
  const [comment, { loading, error }] = useMutation(COMMENT, {
    errorPolicy: "all",
    update: (cache, { data }) => {
      if (!data?.createComment) return;
      prepend(cache, "comments", data.createComment.commentEdge, { __typename: "Post", id: postId });
      setInput(draft(""));
    },
  });
  return (
    <form onSubmit={(event) => { event.preventDefault(); void comment({ variables: { input: { postId, ...input } } }); }}>
      <textarea required disabled={loading} value={input.content} onChange={({ target }) => setInput(draft(target.value))} />
      <button disabled={loading}>{error ? "Send again" : "Comment"}</button> {error && `Comment: ${error.message}`}
    </form>
  );
}
