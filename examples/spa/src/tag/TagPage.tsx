import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link, Redirect } from "wouter";
import type { TagPageQuery } from "../__generated__/TagPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { pathOfSearch } from "../search/address";
import { TagPosts } from "./TagPosts";
import { pathOfTag } from "./tags";

/** The posts with a tag. Other spellings of the tag redirect to it. */
export default function TagPage({ query }: { query: PreloadedQuery<TagPageQuery> }) {
  const { tag } = usePreloadedQuery<TagPageQuery>(
    graphql`
      query TagPageQuery($name: String!) @preloadable {
        tag(name: $name) {
          name
          postCount
          ...TagPosts_tag
        }
      }
    `,
    query,
  );
  if (!tag) return <NotFoundPage />;
  if (tag.name !== query.variables.name) return <Redirect to={pathOfTag(tag.name)} replace />;
  return (
    <div className="page">
      <header className="tag-header">
        <PageHeading title={`#${tag.name}`} />
        <p>
          {tag.postCount === 1 ? "1 post" : `${tag.postCount} posts`} ·{" "}
          <Link href={pathOfSearch({ tag: tag.name })}>Search in these posts</Link>
        </p>
      </header>
      <TagPosts tag={tag} />
    </div>
  );
}
