import type { ReactNode } from "react";
import type { PostCard_post$key } from "../__generated__/PostCard_post.graphql";
import { LoadMore } from "../ui/LoadMore";
import { PostCard } from "./PostCard";

type Listed = PostCard_post$key & { readonly id: string };

interface Props<Post extends Listed> {
  posts: readonly Post[];
  pagination: { hasNext: boolean; isLoadingNext: boolean; loadNext: (count: number) => unknown };
  empty: ReactNode; // what a list without posts says
  end?: string; // what is below the last post
  more?: string; // the button that loads more
  action?: (post: Post) => ReactNode; // in each post's card
  children?: ReactNode; // above the first post
}

/** The posts of a connection, which loads more as one scrolls. */
export function PostList<Post extends Listed>({
  posts, pagination: { hasNext, isLoadingNext, loadNext }, empty, end, more = "Older posts", action, children,
}: Props<Post>) {
  const note = posts.length ? end : empty;
  return (
    <section aria-label="Posts" className="post-list">
      {children}
      {posts.map((post, i) => <PostCard key={post.id} post={post} first={i === 0} action={action?.(post)} />)}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>{more}</LoadMore>}
      {!hasNext && note && <div className="end">{note}</div>}
    </section>
  );
}
