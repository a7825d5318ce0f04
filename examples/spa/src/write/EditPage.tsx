import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { EditPageQuery } from "../__generated__/EditPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { EditPost } from "./EditPost";

/** Edits a post of the viewer's own. */
export default function EditPage({ query }: { query: PreloadedQuery<EditPageQuery> }) {
  const { postBySlug: post } = usePreloadedQuery<EditPageQuery>(
    graphql`
      query EditPageQuery($slug: String!) @preloadable {
        postBySlug(slug: $slug) {
          viewerCanUpdate
          ...EditPost_post
        }
      }
    `,
    query,
  );
  if (!post) return <NotFoundPage />;
  return (
    <section className="page wide">
      <PageHeading title="Edit the post" hidden />
      {post.viewerCanUpdate ? <EditPost post={post} /> : <p>Only its author can edit a post.</p>}
    </section>
  );
}
