import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { FeedPageQuery } from "../__generated__/FeedPageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { TopTags } from "../tag/TopTags";
import { FeedList } from "./FeedList";
import { FeedTabs } from "./FeedTabs";

/** The front page: the newest posts. */
export function FeedPage({ query }: { query: PreloadedQuery<FeedPageQuery> }) {
  const data = usePreloadedQuery<FeedPageQuery>(
    graphql`
      query FeedPageQuery @preloadable {
        ...TopTags_query
        ...FeedList_query
      }
    `,
    query,
  );
  return (
    <div className="page">
      <PageHeading title="Byline" hidden>The newest posts</PageHeading>
      <FeedTabs />
      <TopTags query={data} />
      <FeedList query={data} />
    </div>
  );
}
