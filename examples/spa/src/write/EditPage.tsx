import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import type { EditPageQuery } from "../__generated__/EditPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
import { EditPost } from "./EditPost";

/** Edits a post of the viewer's own. */
export default function EditPage({ slug }: { slug: string }) {
  const { postBySlug: post } = useLazyLoadQuery<EditPageQuery>(
    graphql`
      query EditPageQuery($slug: String!) {
        postBySlug(slug: $slug) {
          viewerCanUpdate
          ...EditPost_post
        }
      }
    `,
    { slug },
    { fetchPolicy: "network-only" },
  );
  if (!post) return <NotFoundPage />;
  return (
    <RequireUser>
      {() => (
        <section className="page wide">
          <PageHeading title="Edit the post" hidden />
          {post.viewerCanUpdate ? <EditPost post={post} /> : <p>Only its author can edit a post.</p>}
        </section>
      )}
    </RequireUser>
  );
}
