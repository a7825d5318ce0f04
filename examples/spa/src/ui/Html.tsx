interface Props {
  html: string;
  className?: string;
}

/** Text that the gateway has rendered and sanitized: contentHtml or renderMarkdown, and nothing else. */
export function Html({ html, className = "" }: Props) {
  return <div className={`rendered ${className}`} dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}
