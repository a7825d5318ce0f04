import type { ReactNode } from "react";
import type { PostCard_post$key } from "../__generated__/PostCard_post.graphql";
import { LoadMore } from "../ui/LoadMore";
import { PostCard } from "./PostCard";

interface Props {
  posts: readonly (PostCard_post$key & { readonly id: string })[];
  pagination: { hasNext: boolean; isLoadingNext: boolean; loadNext: (count: number) => unknown };
  empty: string; // what a list without posts says
  end?: string; // what is below the last post
  children?: ReactNode; // above the first post
}

/** The posts of a connection, which loads more as one scrolls. */
export function PostList({ posts, pagination: { hasNext, isLoadingNext, loadNext }, empty, end, children }: Props) {
  const note = posts.length ? end : empty;
  return (
    <section aria-label="Posts" className="post-list">
      {children}
      {posts.map((post, i) => <PostCard key={post.id} post={post} first={i === 0} />)}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>Older posts</LoadMore>}
      {!hasNext && note && <p className="end">{note}</p>}
    </section>
  );
}
