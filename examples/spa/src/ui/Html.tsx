import { useEffect, useRef } from "react";

interface Props {
  html: string;
  className?: string;
}

/** Text that the gateway has rendered and sanitized: contentHtml or renderMarkdown, and nothing else. */
export function Html({ html, className = "" }: Props) {
  const text = useRef<HTMLDivElement>(null);
  useEffect(() => {
    for (const table of text.current?.querySelectorAll("table") ?? []) {
      if (table.scrollWidth > table.clientWidth) table.tabIndex = 0; // so that keys scroll it
    }
  }, [html]);
  return <div ref={text} className={`rendered ${className}`} dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}
