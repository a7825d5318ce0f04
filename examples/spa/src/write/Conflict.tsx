import { useEffect, useRef } from "react";
import { Html } from "../ui/Html";
import type { PostFields } from "./PostForm";

interface Props {
  current: PostFields;
  html: string; // of its content
  saved: boolean;
  onKeep: () => void;
  onTake: () => void;
}

/** Shows an author the text that was published while they edited an older one, and asks which to go on with. */
export function Conflict({ current, html, saved, onKeep, onTake }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  if (saved) {
    return (
      <section className="conflict">
        <h2 ref={heading} tabIndex={-1}>Your changes are published already</h2>
        <p>The published text is the one below.</p>
        <button type="button" className="button" onClick={onTake}>Go on editing</button>
      </section>
    );
  }
  return (
    <section className="conflict" aria-labelledby="conflict">
      <h2 id="conflict" ref={heading} tabIndex={-1}>The post was edited elsewhere meanwhile</h2>
      <p>Nothing is lost: this is the published text, and yours is in the form below.</p>
      <blockquote>
        <h3 dir="auto">{current.title}</h3>
        <Html html={html} />
        {current.tags && <p>Tags: {current.tags}</p>}
      </blockquote>
      <div className="actions">
        <button type="button" className="button" onClick={onKeep}>Go on with mine, which will replace it</button>
        <button type="button" className="button" onClick={onTake}>Take the published text</button>
      </div>
    </section>
  );
}
