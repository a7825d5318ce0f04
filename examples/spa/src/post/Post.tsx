import { graphql, useFragment } from "react-relay/hooks";
import type { Post_post$key } from "../__generated__/Post_post.graphql";
import { PageHeading } from "../app/PageHeading";
import { useHead } from "../app/useHead";
import { AuthorLine } from "../author/AuthorLine";
import { Comments } from "../comments/Comments";
import { FollowButton } from "../follow/FollowButton";
import { Cover } from "../pictures/Cover";
import { BookmarkButton } from "../saved/BookmarkButton";
import { TagLinks } from "../tag/TagLinks";
import { LikeButton } from "./LikeButton";
import { PostActions } from "./PostActions";
import { PostContent } from "./PostContent";
import { useLivePost } from "./useLivePost";
import "./Post.css";

export function Post({ post }: { post: Post_post$key }) {
  const data = useFragment(
    graphql`
      fragment Post_post on Post {
        id
        title
        excerpt
        readingMinutes
        tags
        seoTitle
        seoDescription
        canonicalUrl
        author {
          ...FollowButton_user
        }
        ...AuthorLine_post
        ...Cover_post
        ...PostContent_post
        ...LikeButton_post
        ...BookmarkButton_post
        ...PostActions_post
        ...Comments_post
      }
    `,
    post,
  );
  const deleted = useLivePost(data.id);
  useHead(data.seoDescription ?? data.excerpt, data.canonicalUrl);
  return (
    <div className="page">
      <article className="post">
        <header>
          <PageHeading title={data.seoTitle ?? data.title}>{data.title}</PageHeading>
          <div className="author-row">
            <AuthorLine post={data}>
              {data.readingMinutes} min read
            </AuthorLine>
            <FollowButton user={data.author} />
          </div>
        </header>
        <Cover post={data} priority />
        {deleted && <p role="alert" className="notice">This post has just been deleted.</p>}
        <PostContent post={data} />
        <TagLinks tags={data.tags} label="Tags" />
        <footer>
          <LikeButton post={data} />
          <BookmarkButton post={data} />
          <PostActions post={data} />
        </footer>
      </article>
      <Comments post={data} />
    </div>
  );
}
