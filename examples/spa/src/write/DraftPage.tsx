import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Redirect } from "wouter";
import type { DraftPageQuery } from "../__generated__/DraftPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { EditDraft } from "./EditDraft";

/** Edits a draft. The address of one that is published leads to the post. */
export default function DraftPage({ query }: { query: PreloadedQuery<DraftPageQuery> }) {
  const { post } = usePreloadedQuery<DraftPageQuery>(
    graphql`
      query DraftPageQuery($id: ID!) @preloadable {
        post(id: $id) {
          isDraft
          slug
          ...EditDraft_post
        }
      }
    `,
    query,
  );
  if (!post) return <NotFoundPage />;
  if (!post.isDraft) return <Redirect to={`/posts/${post.slug}`} replace />;
  return (
    <section className="page wide">
      <PageHeading title="Edit the draft" hidden />
      <EditDraft post={post} />
    </section>
  );
}
