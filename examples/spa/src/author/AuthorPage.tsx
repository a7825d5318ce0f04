import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link, Redirect } from "wouter";
import type { AuthorPageQuery } from "../__generated__/AuthorPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { FollowButton } from "../follow/FollowButton";
import { pathOfSearch } from "../search/address";
import { Avatar } from "../ui/Avatar";
import { count, digits } from "../ui/count";
import { onDay, Time } from "../ui/Time";
import { AuthorPosts } from "./AuthorPosts";
import { DeleteAuthor } from "./DeleteAuthor";
import "./AuthorPage.css";

/** An author and their posts. A former username redirects to the present one. */
export default function AuthorPage({ query }: { query: PreloadedQuery<AuthorPageQuery> }) {
  const { userByUsername: user, ...data } = usePreloadedQuery<AuthorPageQuery>(
    graphql`
      query AuthorPageQuery($username: String!) @preloadable {
        ...DeleteAuthor_query
        userByUsername(username: $username) {
          id
          username
          displayName
          avatarUrl
          bio
          createdAt
          postCount
          followerCount
          followingCount
          ...FollowButton_user
          ...AuthorPosts_user
        }
      }
    `,
    query,
  );
  if (!user) return <NotFoundPage />;
  if (user.username !== query.variables.username) return <Redirect to={`/authors/${user.username}`} replace />;
  return (
    <div className="page">
      <header className="author-header">
        <Avatar name={user.displayName} url={user.avatarUrl} />
        <PageHeading title={user.displayName} />
        <p>
          <bdi>@{user.username}</bdi> ·{" "}
          {user.postCount != null && <>{count(user.postCount, "post")} · </>}
          {user.followerCount != null && (
            <><Link href={`/authors/${user.username}/followers`}>{count(user.followerCount, "follower")}</Link> · </>
          )}
          {user.followingCount != null && (
            <><Link href={`/authors/${user.username}/following`}>{digits(user.followingCount)} following</Link> · </>
          )}
          {user.createdAt && <>writes here since <Time value={user.createdAt} phrase={onDay} /> · </>}
          <Link href={pathOfSearch({ author: user.id })}>Search in these posts</Link>
        </p>
        <FollowButton user={user} />
        {user.bio && <p className="bio" dir="auto">{user.bio}</p>}
      </header>
      <AuthorPosts user={user} />
      <DeleteAuthor query={data} author={user} />
    </div>
  );
}
