import type { ReactNode, SubmitEvent } from "react";
import { invalidFields } from "../network/errors";
import { invalidTags, maxTags } from "../tag/tags";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import type { Change } from "../ui/useDraft";
import { ContentField } from "./ContentField";
import { CoverField } from "./CoverField";
import { SearchFields } from "./SearchFields";
import { usePending } from "./usePending";
import "./PostForm.css";

export interface PostFields {
  title: string;
  content: string;
  tags: string; // as the author types them
  seoTitle: string; // this and the following: "" is none
  seoDescription: string;
  canonicalUrl: string;
  coverUrl: string;
  coverAlt: string;
}

export const noFields: PostFields = {
  title: "", content: "", tags: "", seoTitle: "", seoDescription: "", canonicalUrl: "", coverUrl: "",
  coverAlt: "",
};

interface Props {
  fields: PostFields;
  onChange: (change: Change<PostFields>) => void;
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
  const wrongCover = [...invalid].some((field) => field?.startsWith("coverImage"));
  const uploading = usePending(fields.content);

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (!busy && !wrongTags && !uploading) onSubmit();
  }
  return (
    <form className="post-form" onSubmit={submit}>
      <CoverField fields={fields} onChange={onChange} busy={busy} invalid={wrongCover} />
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
      <ContentField text={fields.content} onChange={onChange} busy={busy} invalid={invalid.has("content")} />
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
        <SubmitButton busy={busy || uploading}>{action}</SubmitButton>
        {children}
        {uploading && <span className="hint">A picture is not uploaded yet.</span>}
      </div>
    </form>
  );
}
