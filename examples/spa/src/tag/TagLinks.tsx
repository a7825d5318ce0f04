import { Link } from "wouter";
import "./TagLinks.css";
import { pathOfTag } from "./tags";

/** Links to the posts with each of some tags. */
export function TagLinks({ tags, label }: { tags: readonly string[]; label: string }) {
  if (tags.length === 0) return null;
  return (
    <ul className="tags" aria-label={label}>
      {tags.map((tag) => (
        <li key={tag}>
          <Link href={pathOfTag(tag)} dir="auto">{tag}</Link>
        </li>
      ))}
    </ul>
  );
}
