import { useLazyLoadQuery } from "react-relay/hooks";
import type { feedQuery } from "../__generated__/feedQuery.graphql";
import { useFetchPolicy } from "../app/navigation";
import { PageHeading } from "../app/PageHeading";
import { TopTags } from "../tag/TopTags";
import { FeedList } from "./FeedList";
import { query } from "./feedQuery";

/** The front page: the newest posts. */
export function FeedPage() {
  const data = useLazyLoadQuery<feedQuery>(query, {}, { fetchPolicy: useFetchPolicy() });
  return (
    <div className="page">
      <PageHeading title="Byline" hidden>The newest posts</PageHeading>
      <TopTags query={data} />
      <FeedList query={data} />
    </div>
  );
}
