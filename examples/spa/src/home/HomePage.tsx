import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { HomePageQuery } from "../__generated__/HomePageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { FeedTabs } from "../feed/FeedTabs";
import { HomeList } from "./HomeList";

/** The newest posts of those whom the viewer follows. */
export default function HomePage({ query }: { query: PreloadedQuery<HomePageQuery> }) {
  const { viewer } = usePreloadedQuery<HomePageQuery>(
    graphql`
      query HomePageQuery @preloadable {
        viewer {
          ...HomeList_user
        }
      }
    `,
    query,
  );
  return (
    <div className="page">
      <PageHeading title="Home" hidden>The posts of those you follow</PageHeading>
      <FeedTabs />
      {viewer && <HomeList user={viewer} />}
    </div>
  );
}
