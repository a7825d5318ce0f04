import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { Comments_post$key } from "../__generated__/Comments_post.graphql";
import type { CommentsQuery } from "../__generated__/CommentsQuery.graphql";
import { nodesOf } from "../network/nodesOf";
import { useViewer } from "../session/useViewer";
import { LoadMore } from "../ui/LoadMore";
import { Comment } from "./Comment";
import { CommentForm } from "./CommentForm";
import { isPending, withoutConfirmed } from "./pending";
import { useLiveComments } from "./useLiveComments";
import "./Comments.css";

/** The comments on a post, the newest first, with the form to add one. */
export function Comments({ post }: { post: Comments_post$key }) {
  const { data, hasNext, isLoadingNext, loadNext } = usePaginationFragment<CommentsQuery, Comments_post$key>(
    graphql`
      fragment Comments_post on Post
      @refetchable(queryName: "CommentsQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 20 }, after: { type: "String" }) {
        id
        commentCount
        comments(first: $first, after: $after) @connection(key: "Comments_comments") {
          __id
          edges {
            node {
              id
              content
              author {
                id
              }
              ...Comment_comment
            }
          }
        }
      }
    `,
    post,
  );
  const { id, commentCount, comments } = data;
  useLiveComments(id, comments.__id, useViewer()?.id);
  const shown = withoutConfirmed(nodesOf(comments));
  return (
    <section className="comments" aria-labelledby="comments">
      <h2 id="comments">{commentCount === 1 ? "1 comment" : `${commentCount} comments`}</h2>
      <CommentForm postId={id} connection={comments.__id} commentCount={commentCount} />
      <ol>
        {shown.map((comment) => (
          <li key={comment.id}>
            <Comment comment={comment} pending={isPending(comment.id)} />
          </li>
        ))}
      </ol>
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(20); }}>Older comments</LoadMore>}
    </section>
  );
}
