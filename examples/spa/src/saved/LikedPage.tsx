import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link } from "wouter";
import type { LikedPage_user$key } from "../__generated__/LikedPage_user.graphql";
import type { LikedPagePaginationQuery } from "../__generated__/LikedPagePaginationQuery.graphql";
import type { LikedPageQuery } from "../__generated__/LikedPageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { PostList } from "../feed/PostList";
import { nodesOf } from "../network/nodesOf";

/** The posts that the viewer likes. */
export default function LikedPage({ query }: { query: PreloadedQuery<LikedPageQuery> }) {
  const { viewer } = usePreloadedQuery<LikedPageQuery>(
    graphql`
      query LikedPageQuery @preloadable {
        viewer {
          ...LikedPage_user
        }
      }
    `,
    query,
  );
  return (
    <div className="page">
      <header className="list-header">
        <PageHeading title="Liked posts" />
        <p>The posts that you like, most recently liked first.</p>
      </header>
      {viewer && <Liked user={viewer} />}
    </div>
  );
}

function Liked({ user }: { user: LikedPage_user$key }) {
  const { data: { likedPosts }, ...pagination } = usePaginationFragment<LikedPagePaginationQuery, LikedPage_user$key>(
    graphql`
      fragment LikedPage_user on User
      @refetchable(queryName: "LikedPagePaginationQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        likedPosts(first: $first, after: $after) @connection(key: "LikedPage_likedPosts") {
          edges {
            node {
              id
              ...PostCard_post
            }
          }
        }
      }
    `,
    user,
  );
  const empty = (
    <>
      <p>Like a post to find it here again: the button is below its text.</p>
      <p><Link href="/" className="button">Read the newest posts</Link></p>
    </>
  );
  return (
    <PostList
      posts={likedPosts ? nodesOf(likedPosts) : []} pagination={pagination} empty={empty} more="Posts liked earlier"
    />
  );
}
