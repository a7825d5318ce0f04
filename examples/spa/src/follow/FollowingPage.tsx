import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link } from "wouter";
import type { FollowingPage_user$key } from "../__generated__/FollowingPage_user.graphql";
import type { FollowingPagePaginationQuery } from "../__generated__/FollowingPagePaginationQuery.graphql";
import type { FollowingPageQuery } from "../__generated__/FollowingPageQuery.graphql";
import { nodesOf } from "../network/nodesOf";
import { useViewer } from "../session/useViewer";
import { FollowPage } from "./FollowPage";
import { UserList } from "./UserList";

/** The users whom an author follows, most recently followed first. */
export default function FollowingPage({ query }: { query: PreloadedQuery<FollowingPageQuery> }) {
  const { userByUsername: user } = usePreloadedQuery<FollowingPageQuery>(
    graphql`
      query FollowingPageQuery($username: String!) @preloadable {
        userByUsername(username: $username) {
          ...FollowPage_user
          ...FollowingPage_user
        }
      }
    `,
    query,
  );
  return (
    <FollowPage user={user} list="following" username={query.variables.username}>
      {user && <Following user={user} />}
    </FollowPage>
  );
}

function Following({ user }: { user: FollowingPage_user$key }) {
  const { data, ...pagination } = usePaginationFragment<FollowingPagePaginationQuery, FollowingPage_user$key>(
    graphql`
      fragment FollowingPage_user on User
      @refetchable(queryName: "FollowingPagePaginationQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 20 }, after: { type: "String" }) {
        id
        following(first: $first, after: $after) @connection(key: "FollowingPage_following") {
          edges {
            node {
              id
              ...UserItem_user
            }
          }
        }
      }
    `,
    user,
  );
  const own = useViewer()?.id === data.id;
  const empty = own ? (
    <>
      <p>You follow nobody yet. Follow somebody to see their posts in Home.</p>
      <p><Link href="/" className="button">Read the newest posts</Link></p>
    </>
  ) : <p>They follow nobody yet.</p>;
  return <UserList users={nodesOf(data.following)} pagination={pagination} empty={empty} />;
}
