import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link } from "wouter";
import type { DraftsPage_user$key } from "../__generated__/DraftsPage_user.graphql";
import type { DraftsPagePaginationQuery } from "../__generated__/DraftsPagePaginationQuery.graphql";
import type { DraftsPageQuery } from "../__generated__/DraftsPageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { nodesOf } from "../network/nodesOf";
import { LoadMore } from "../ui/LoadMore";
import { Time } from "../ui/Time";

/** The viewer's drafts. */
export default function DraftsPage({ query }: { query: PreloadedQuery<DraftsPageQuery> }) {
  const { viewer } = usePreloadedQuery<DraftsPageQuery>(
    graphql`
      query DraftsPageQuery @preloadable {
        viewer {
          ...DraftsPage_user
        }
      }
    `,
    query,
  );
  return (
    <div className="page">
      <PageHeading title="Drafts" />
      <p>Only you see your drafts.</p>
      {viewer && <Drafts user={viewer} />}
    </div>
  );
}

function Drafts({ user }: { user: DraftsPage_user$key }) {
  const { data, hasNext, isLoadingNext, loadNext } = usePaginationFragment<
    DraftsPagePaginationQuery,
    DraftsPage_user$key
  >(
    graphql`
      fragment DraftsPage_user on User
      @refetchable(queryName: "DraftsPagePaginationQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 20 }, after: { type: "String" }) {
        drafts(first: $first, after: $after) @connection(key: "DraftsPage_drafts") {
          edges {
            node {
              id
              title
              excerpt
              createdAt
            }
          }
        }
      }
    `,
    user,
  );
  const drafts = data.drafts ? nodesOf(data.drafts) : [];
  return (
    <section aria-label="Drafts" className="post-list">
      {drafts.map(({ id, title, excerpt, createdAt }) => (
        <article key={id} className="post-card">
          <p className="author-line"><Time value={createdAt} /></p>
          <h2 dir="auto"><Link href={`/drafts/${id}`}>{title}</Link></h2>
          <p className="excerpt" dir="auto">{excerpt}</p>
        </article>
      ))}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(20); }}>Older drafts</LoadMore>}
      {drafts.length === 0 && <p className="end">You have no drafts. <Link href="/write">Write one</Link></p>}
    </section>
  );
}
