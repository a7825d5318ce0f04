import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import { Redirect } from "wouter";
import type { DraftPageQuery } from "../__generated__/DraftPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
import { EditDraft } from "./EditDraft";

/** Edits a draft. The address of one that is published leads to the post. */
export default function DraftPage({ id }: { id: string }) {
  return <RequireUser>{() => <Draft id={id} />}</RequireUser>;
}

function Draft({ id }: { id: string }) {
  const { post } = useLazyLoadQuery<DraftPageQuery>(
    graphql`
      query DraftPageQuery($id: ID!) {
        post(id: $id) {
          isDraft
          slug
          ...EditDraft_post
        }
      }
    `,
    { id },
    { fetchPolicy: "network-only" },
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
