import { useQuery } from "@apollo/client/react";
import { live, prepend } from "byline-client/apollo";
import { useEffect } from "react";
import { client } from "./apollo.ts";
import { byline } from "./byline.ts";
import { FEED, PUBLISHED } from "./documents.ts";

const follow = () =>
  live(client, byline, {
    list: { query: FEED },
    events: { query: PUBLISHED },
    next: ({ postPublished: node }) => prepend(client.cache, "feed", { node }),
  });

export function Feed() {
  const { data, error, fetchMore } = useQuery(FEED);
  useEffect(follow, []);
  const after = data?.feed.pageInfo.endCursor;
  return (
    <>
      {error && <p>{error.message}</p>}
      {data?.feed.edges.map(({ node }) => <p key={node.id}><a href={`#${node.id}`}>{node.title}</a> ({node.commentCount})</p>)}
      {data?.feed.pageInfo.hasNextPage && <button onClick={() => fetchMore({ variables: { after } })}>More</button>}
    </>
  );
}
