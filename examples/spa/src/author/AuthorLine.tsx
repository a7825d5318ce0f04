import type { ReactNode } from "react";
import { graphql, useFragment } from "react-relay/hooks";
import type { AuthorLine_post$key } from "../__generated__/AuthorLine_post.graphql";
import { Time } from "../ui/Time";
import { AuthorLink } from "./AuthorLink";

/** Who has written a post, and when. */
export function AuthorLine({ post, children }: { post: AuthorLine_post$key; children?: ReactNode }) {
  const { author, createdAt, updatedAt } = useFragment(
    graphql`
      fragment AuthorLine_post on Post {
        author {
          ...AuthorLink_user
        }
        createdAt
        updatedAt
      }
    `,
    post,
  );
  return (
    <p className="author-line">
      <AuthorLink user={author} />
      <span>
        <Time value={createdAt} />
        {updatedAt && <> · edited <Time value={updatedAt} /></>}
        {children && <> · {children}</>}
      </span>
    </p>
  );
}
