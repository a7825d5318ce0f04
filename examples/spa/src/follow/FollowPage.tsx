import type { ReactNode } from "react";
import { graphql, useFragment } from "react-relay/hooks";
import { Link, Redirect } from "wouter";
import type { FollowPage_user$key } from "../__generated__/FollowPage_user.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { PageHeading } from "../app/PageHeading";
import { count, digits } from "../ui/count";
import { FollowButton } from "./FollowButton";

interface Props {
  user: FollowPage_user$key | null | undefined;
  list: "followers" | "following";
  username: string; // of the address; a former one redirects to the present one
  children: ReactNode;
}

/** The frame of the two lists of an author. */
export function FollowPage({ user, list, username, children }: Props) {
  const author = useFragment(
    graphql`
      fragment FollowPage_user on User {
        username
        displayName
        followerCount
        followingCount
        ...FollowButton_user
      }
    `,
    user,
  );
  if (!author) return <NotFoundPage />;
  const path = `/authors/${author.username}`;
  if (author.username !== username) return <Redirect to={`${path}/${list}`} replace />;
  const current = (name: typeof list) => (name === list ? "page" : undefined);
  const name = <Link href={path}><bdi>{author.displayName}</bdi></Link>;
  const [title, heading] = list === "followers"
    ? [`Followers of ${author.displayName}`, <>Followers of {name}</>]
    : [`Followed by ${author.displayName}`, <>Followed by {name}</>];
  return (
    <div className="page">
      <header className="follow-header">
        <PageHeading title={title}>{heading}</PageHeading>
        <FollowButton user={author} />
      </header>
      <nav className="tabs" aria-label="Follows">
        <Link href={`${path}/followers`} aria-current={current("followers")}>
          {author.followerCount == null ? "Followers" : count(author.followerCount, "follower")}
        </Link>
        <Link href={`${path}/following`} aria-current={current("following")}>
          {author.followingCount == null ? "Following" : `${digits(author.followingCount)} following`}
        </Link>
      </nav>
      {children}
    </div>
  );
}
