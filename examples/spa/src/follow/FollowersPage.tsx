import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link } from "wouter";
import type { FollowersPage_user$key } from "../__generated__/FollowersPage_user.graphql";
import type { FollowersPagePaginationQuery } from "../__generated__/FollowersPagePaginationQuery.graphql";
import type { FollowersPageQuery } from "../__generated__/FollowersPageQuery.graphql";
import { nodesOf } from "../network/nodesOf";
import { useViewer } from "../session/useViewer";
import { FollowPage } from "./FollowPage";
import { UserList } from "./UserList";

/** The followers of an author, most recent first. */
export default function FollowersPage({ query }: { query: PreloadedQuery<FollowersPageQuery> }) {
  const { userByUsername: user } = usePreloadedQuery<FollowersPageQuery>(
    graphql`
      query FollowersPageQuery($username: String!) @preloadable {
        userByUsername(username: $username) {
          ...FollowPage_user
          ...FollowersPage_user
        }
      }
    `,
    query,
  );
  return (
    <FollowPage user={user} list="followers" username={query.variables.username}>
      {user && <Followers user={user} />}
    </FollowPage>
  );
}

function Followers({ user }: { user: FollowersPage_user$key }) {
  const { data, ...pagination } = usePaginationFragment<FollowersPagePaginationQuery, FollowersPage_user$key>(
    graphql`
      fragment FollowersPage_user on User
      @refetchable(queryName: "FollowersPagePaginationQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 20 }, after: { type: "String" }) {
        id
        followers(first: $first, after: $after) @connection(key: "FollowersPage_followers") {
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
      <p>Nobody follows you yet. Those who do see your posts in their Home as you publish them.</p>
      <p><Link href="/write" className="button">Write a post</Link></p>
    </>
  ) : <p>Nobody follows them yet.</p>;
  return <UserList users={nodesOf(data.followers)} pagination={pagination} empty={empty} />;
}
