/** Plain text, whose paragraphs are separated by empty lines. */
export function Paragraphs({ text, className }: { text: string; className?: string }) {
  return (
    <div className={className}>
      {text.split(/\n\s*\n/).map((paragraph, i) => (
        <p key={i} dir="auto">{paragraph}</p>
      ))}
    </div>
  );
}
