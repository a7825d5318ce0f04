import { graphql, useFragment } from "react-relay/hooks";
import type { TopTags_query$key } from "../__generated__/TopTags_query.graphql";
import { TagLinks } from "./TagLinks";

/** The tags that most posts have. */
export function TopTags({ query }: { query: TopTags_query$key }) {
  const { tags } = useFragment(
    graphql`
      fragment TopTags_query on Query {
        tags(first: 8) {
          name
        }
      }
    `,
    query,
  );
  if (tags.length === 0) return null;
  return (
    <nav className="top-tags" aria-label="Tags">
      <TagLinks tags={tags.map(({ name }) => name)} label="Most used tags" />
    </nav>
  );
}
