import { fetchQuery, graphql } from "react-relay/hooks";
import type { feedQuery } from "../__generated__/feedQuery.graphql";
import { environment } from "../network/environment";

export const query = graphql`
  query feedQuery {
    ...TopTags_query
    ...FeedList_query
  }
`;

/** Puts the feed into the store. */
export const loadFeed = () => fetchQuery<feedQuery>(environment, query, {}).toPromise();
