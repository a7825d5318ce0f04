import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import type { EditPageQuery } from "../__generated__/EditPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { Fresh } from "../network/Fresh";
import { RequireUser } from "../session/RequireUser";
import { EditPost } from "./EditPost";

const query = graphql`
  query EditPageQuery($slug: String!) {
    postBySlug(slug: $slug) {
      viewerCanUpdate
      ...EditPost_post
    }
  }
`;

/** Edits a post of the viewer's own. */
export default function EditPage({ slug }: { slug: string }) {
  return (
    <RequireUser>
      {() => <Fresh<EditPageQuery> key={slug} query={query} variables={{ slug }}><Editor slug={slug} /></Fresh>}
    </RequireUser>
  );
}

function Editor({ slug }: { slug: string }) {
  const { postBySlug: post } = useLazyLoadQuery<EditPageQuery>(query, { slug });
  if (!post) return <NotFoundPage />;
  return (
    <section className="page wide">
      <PageHeading title="Edit the post" hidden />
      {post.viewerCanUpdate ? <EditPost post={post} /> : <p>Only its author can edit a post.</p>}
    </section>
  );
}
