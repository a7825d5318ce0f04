import { useEffect, useRef } from "react";
import { Html } from "../ui/Html";
import type { useEdit } from "./useEdit";

/** Shows an author the text that was published while they edited an older one, and asks which to go on with. */
export function Conflict({ edit: { current, html, saved, change } }: { edit: ReturnType<typeof useEdit> }) {
  const onKeep = () => { change({ version: current.version }); };
  const onTake = () => { change(current); };
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  if (saved) {
    return (
      <section className="conflict">
        <h2 ref={heading} tabIndex={-1}>Your changes are saved already</h2>
        <p>The saved text is the one below.</p>
        <button type="button" className="button" onClick={onTake}>Go on editing</button>
      </section>
    );
  }
  return (
    <section className="conflict" aria-labelledby="conflict">
      <h2 id="conflict" ref={heading} tabIndex={-1}>It was edited elsewhere meanwhile</h2>
      <p>Nothing is lost: this is the text that is saved, and yours is in the form below.</p>
      <blockquote>
        {current.coverUrl && <img className="cover" src={current.coverUrl} alt={current.coverAlt} />}
        <h3 dir="auto">{current.title}</h3>
        <Html html={html} />
        {current.tags && <p>Tags: {current.tags}</p>}
        {current.seoTitle && <p>Headline: {current.seoTitle}</p>}
        {current.seoDescription && <p>Description: {current.seoDescription}</p>}
        {current.canonicalUrl && <p>Canonical URL: {current.canonicalUrl}</p>}
      </blockquote>
      <div className="actions">
        <button type="button" className="button" onClick={onKeep}>Go on with mine, which replaces it</button>
        <button type="button" className="button" onClick={onTake}>Take the saved text</button>
      </div>
    </section>
  );
}
