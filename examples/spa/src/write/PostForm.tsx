import type { ReactNode, SubmitEvent } from "react";
import { invalidFields } from "../network/errors";
import { invalidTags, maxTags } from "../tag/tags";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { Preview } from "./Preview";
import { SearchFields } from "./SearchFields";
import "./PostForm.css";

export interface PostFields {
  title: string;
  content: string;
  tags: string; // as the author types them
  seoTitle: string; // this and the following: "" is none
  seoDescription: string;
  canonicalUrl: string;
}

export const noFields: PostFields = {
  title: "", content: "", tags: "", seoTitle: "", seoDescription: "", canonicalUrl: "",
};

interface Props {
  fields: PostFields;
  onChange: (fields: Partial<PostFields>) => void;
  onSubmit: () => void;
  busy: boolean;
  error: unknown;
  action: string;
  children?: ReactNode;
}

/** Where posts are written and edited. */
export function PostForm({ fields, onChange, onSubmit, busy, error, action, children }: Props) {
  const invalid = invalidFields(error);
  const wrongTags = invalidTags(fields.tags);

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (!busy && !wrongTags) onSubmit();
  }
  return (
    <form className="post-form" onSubmit={submit}>
      <label htmlFor="title">Title</label>
      <textarea
        id="title"
        className="title"
        dir="auto"
        rows={1}
        required
        maxLength={200}
        readOnly={busy}
        value={fields.title}
        aria-invalid={invalid.has("title")}
        aria-describedby="form-error"
        onChange={(event) => { onChange({ title: event.target.value.replaceAll("\n", " ") }); }}
      />
      <div className="beside">
        <div>
          <label htmlFor="content">Text</label>
          <textarea
            id="content"
            className="content"
            dir="auto"
            required
            maxLength={100_000}
            readOnly={busy}
            value={fields.content}
            aria-invalid={invalid.has("content")}
            aria-describedby="content-hint form-error"
            onChange={(event) => { onChange({ content: event.target.value }); }}
          />
        </div>
        <Preview text={fields.content} />
      </div>
      <p id="content-hint" className="hint">
        Markdown: an empty line begins a paragraph, <code># </code> a heading, <code>- </code> a list;{" "}
        <code>**bold**</code>, <code>[link](https://…)</code>. What you write is kept in this tab as you type.
      </p>
      <label htmlFor="tags">Tags</label>
      <input
        id="tags"
        dir="auto"
        autoCapitalize="none"
        autoComplete="off"
        readOnly={busy}
        value={fields.tags}
        aria-invalid={wrongTags !== undefined || invalid.has("tags")}
        aria-describedby="tags-hint form-error"
        onChange={(event) => { onChange({ tags: event.target.value }); }}
      />
      <p id="tags-hint" className="hint" role="status">
        {wrongTags ?? `Up to ${maxTags}, separated by commas.`}
      </p>
      <SearchFields fields={fields} onChange={onChange} busy={busy} invalid={invalid} />
      <div id="form-error">
        <ErrorNote error={error} />
      </div>
      <div className="actions">
        <SubmitButton busy={busy}>{action}</SubmitButton>
        {children}
      </div>
    </form>
  );
}
