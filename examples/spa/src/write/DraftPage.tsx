import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import { Redirect } from "wouter";
import type { DraftPageQuery } from "../__generated__/DraftPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { Fresh } from "../network/Fresh";
import { RequireUser } from "../session/RequireUser";
import { EditDraft } from "./EditDraft";

const query = graphql`
  query DraftPageQuery($id: ID!) {
    post(id: $id) {
      isDraft
      slug
      ...EditDraft_post
    }
  }
`;

/** Edits a draft. The address of one that is published leads to the post. */
export default function DraftPage({ id }: { id: string }) {
  return (
    <RequireUser>
      {() => <Fresh<DraftPageQuery> key={id} query={query} variables={{ id }}><Draft id={id} /></Fresh>}
    </RequireUser>
  );
}

function Draft({ id }: { id: string }) {
  const { post } = useLazyLoadQuery<DraftPageQuery>(query, { id });
  if (!post) return <NotFoundPage />;
  if (!post.isDraft) return <Redirect to={`/posts/${post.slug}`} replace />;
  return (
    <section className="page wide">
      <PageHeading title="Edit the draft" hidden />
      <EditDraft post={post} />
    </section>
  );
}
