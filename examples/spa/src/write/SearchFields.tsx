import type { PostFields } from "./PostForm";

const texts = [
  { name: "seoTitle", label: "Headline", maxLength: 200, hint: "Instead of the title." },
  { name: "seoDescription", label: "Description", maxLength: 500, hint: "Instead of the beginning of the text." },
  { name: "canonicalUrl", label: "Canonical URL", maxLength: 2000, hint: "If the post was published elsewhere first." },
] as const;

interface Props {
  fields: PostFields;
  onChange: (fields: Partial<PostFields>) => void;
  busy: boolean;
  invalid: Set<string | undefined>;
}

/** What search engines and link previews show of a post. All of it is optional. */
export function SearchFields({ fields, onChange, busy, invalid }: Props) {
  return (
    <details open={texts.some(({ name }) => invalid.has(name))}>
      <summary>Search engines and previews</summary>
      {texts.map(({ name, label, maxLength, hint }) => (
        <div key={name}>
          <label htmlFor={name}>{label}</label>
          <input
            id={name}
            dir="auto"
            inputMode={name === "canonicalUrl" ? "url" : undefined}
            autoComplete="off"
            maxLength={maxLength}
            readOnly={busy}
            value={fields[name]}
            aria-invalid={invalid.has(name)}
            aria-describedby={`${name}-hint form-error`}
            onChange={(event) => { onChange({ [name]: event.target.value }); }}
          />
          <p id={`${name}-hint`} className="hint">{hint}</p>
        </div>
      ))}
    </details>
  );
}
