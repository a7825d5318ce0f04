import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Link } from "wouter";
import type { BookmarksPage_user$key } from "../__generated__/BookmarksPage_user.graphql";
import type { BookmarksPagePaginationQuery } from "../__generated__/BookmarksPagePaginationQuery.graphql";
import type { BookmarksPageQuery } from "../__generated__/BookmarksPageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { PostList } from "../feed/PostList";
import { nodesOf } from "../network/nodesOf";
import { BookmarkButton } from "./BookmarkButton";

/** The viewer's bookmarks. A post whose bookmark is removed stays until the reader leaves the page. */
export default function BookmarksPage({ query }: { query: PreloadedQuery<BookmarksPageQuery> }) {
  const { viewer } = usePreloadedQuery<BookmarksPageQuery>(
    graphql`
      query BookmarksPageQuery @preloadable {
        viewer {
          ...BookmarksPage_user
        }
      }
    `,
    query,
  );
  return (
    <div className="page">
      <header className="list-header">
        <PageHeading title="Bookmarks" />
        <p>Only you see your bookmarks.</p>
      </header>
      {viewer && <Bookmarks user={viewer} />}
    </div>
  );
}

function Bookmarks({ user }: { user: BookmarksPage_user$key }) {
  const { data: { bookmarks }, ...pagination } = usePaginationFragment<
    BookmarksPagePaginationQuery,
    BookmarksPage_user$key
  >(
    graphql`
      fragment BookmarksPage_user on User
      @refetchable(queryName: "BookmarksPagePaginationQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        bookmarks(first: $first, after: $after) @connection(key: "BookmarksPage_bookmarks") {
          edges {
            node {
              id
              ...PostCard_post
              ...BookmarkButton_post
            }
          }
        }
      }
    `,
    user,
  );
  const empty = (
    <>
      <p>Bookmark a post to find it here again: the button is below its text.</p>
      <p><Link href="/" className="button">Read the newest posts</Link></p>
    </>
  );
  return (
    <PostList
      posts={bookmarks ? nodesOf(bookmarks) : []}
      pagination={pagination}
      empty={empty}
      more="Older bookmarks"
      action={(post) => <BookmarkButton post={post} />}
    />
  );
}
