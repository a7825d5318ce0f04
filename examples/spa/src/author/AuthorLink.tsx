import { graphql, useFragment } from "react-relay/hooks";
import { Link } from "wouter";
import type { AuthorLink_user$key } from "../__generated__/AuthorLink_user.graphql";
import { Avatar } from "../ui/Avatar";

/** An author's name, which links to their page. The name is empty while a deletion is under way. */
export function AuthorLink({ user }: { user: AuthorLink_user$key }) {
  const { username, displayName, avatarUrl } = useFragment(
    graphql`
      fragment AuthorLink_user on User {
        username
        displayName
        avatarUrl
      }
    `,
    user,
  );
  if (!username) return <span className="author">a former member</span>;
  return (
    <Link href={`/authors/${username}`} className="author">
      <Avatar name={displayName} url={avatarUrl} />
      <bdi>{displayName}</bdi>
    </Link>
  );
}
