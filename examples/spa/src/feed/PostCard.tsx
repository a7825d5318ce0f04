import type { ReactNode } from "react";
import { graphql, useFragment } from "react-relay/hooks";
import { Link } from "wouter";
import type { PostCard_post$key } from "../__generated__/PostCard_post.graphql";
import { AuthorLine } from "../author/AuthorLine";
import { Cover } from "../pictures/Cover";
import { TagLinks } from "../tag/TagLinks";
import { count } from "../ui/count";
import "./PostCard.css";

interface Props {
  post: PostCard_post$key;
  first: boolean; // its cover is among what a reader sees first
  children?: ReactNode; // another part of the text than the excerpt
  action?: ReactNode; // what readers can do with it
}

/** A post in a list. */
export function PostCard({ post, first, children, action }: Props) {
  const { slug, title, excerpt, tags, likeCount, commentCount, ...data } = useFragment(
    graphql`
      fragment PostCard_post on Post {
        slug
        title
        excerpt
        tags
        likeCount
        commentCount
        ...AuthorLine_post
        ...Cover_post
      }
    `,
    post,
  );
  return (
    <article className="post-card">
      <Cover post={data} priority={first} />
      <AuthorLine post={data} />
      <h2 dir="auto">
        <Link href={`/posts/${slug}`}>{title}</Link>
      </h2>
      <p className="excerpt" dir="auto">{children ?? (isCut(excerpt) ? `${excerpt}…` : excerpt)}</p>
      <footer>
        <p className="counts">
          {count(likeCount, "like")} · {count(commentCount, "comment")}
        </p>
        <TagLinks tags={tags} label="Tags" />
        {action}
      </footer>
    </article>
  );
}

// The gateway cuts excerpts at 280 characters, between words.
const isCut = (excerpt: string) => excerpt.length > 240 && /[\p{L}\p{N},;:]$/u.test(excerpt);
