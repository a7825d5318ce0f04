import { graphql, useFragment } from "react-relay/hooks";
import type { UserItem_user$key } from "../__generated__/UserItem_user.graphql";
import { AuthorLink } from "../author/AuthorLink";
import { FollowButton } from "./FollowButton";

/** A user in a list. */
export function UserItem({ user }: { user: UserItem_user$key }) {
  const { username, ...data } = useFragment(
    graphql`
      fragment UserItem_user on User {
        username
        ...AuthorLink_user
        ...FollowButton_user
      }
    `,
    user,
  );
  return (
    <li>
      <p>
        <AuthorLink user={data} />
        {username && <bdi className="username">@{username}</bdi>}
      </p>
      <FollowButton user={data} />
    </li>
  );
}
