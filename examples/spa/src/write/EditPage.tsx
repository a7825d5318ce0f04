import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import type { EditPageQuery } from "../__generated__/EditPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
import { EditPost } from "./EditPost";

/** Edits a post of the viewer's own. */
export default function EditPage({ id }: { id: string }) {
  const { post } = useLazyLoadQuery<EditPageQuery>(
    graphql`
      query EditPageQuery($id: ID!) {
        post(id: $id) {
          author {
            id
          }
          ...EditPost_post
        }
      }
    `,
    { id },
    { fetchPolicy: "network-only" },
  );
  if (!post) return <NotFoundPage />;
  return (
    <RequireUser>
      {(viewer) => (
        <section className="page">
          <PageHeading title="Edit the post" hidden />
          {viewer.id === post.author.id ? <EditPost post={post} /> : <p>Only its author can edit a post.</p>}
        </section>
      )}
    </RequireUser>
  );
}
