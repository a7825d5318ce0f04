import { useQuery, useSubscription } from "@apollo/client/react";
import { live, prepend } from "byline-client/apollo";
import { useEffect } from "react";
import { client } from "./apollo.ts";
import { byline } from "./byline.ts";
import { CommentForm } from "./CommentForm.tsx";
import { graphql } from "./gql/index.ts";
import { Like } from "./Like.tsx";

const POST = graphql(`
  query Post($id: ID!) {
    post(id: $id) {
      id
      title
      contentHtml
      likeCount
      viewerHasLiked
      commentCount
      comments {
        edges { node { id content author { id username } } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`);
const CHANGED = graphql(`subscription PostChanged($id: ID!) { postChanged(id: $id) { id title likeCount commentCount } }`);
const COMMENTED = graphql(`subscription Commented($id: ID!) { commentAdded(postId: $id) { id content author { id username } } }`);

export function Post({ id }: { id: string }) {
  const { data, error } = useQuery(POST, { variables: { id } });
  useSubscription(CHANGED, { variables: { id } }); // updates the post in the cache
  useEffect(
    () =>
      live(client, byline, {
        list: { query: POST, variables: { id } },
        events: { query: COMMENTED, variables: { id } },
        next: ({ commentAdded: node }) => prepend(client.cache, "comments", { node }, { __typename: "Post", id }),
      }),
    [id],
  );
  const post = data?.post;
  if (!post) return error ? <p>{error.message}</p> : null;
  return (
    <>
      <p><a href="#">All posts</a></p>
      <h1>{post.title}</h1>
      <div dangerouslySetInnerHTML={{ __html: post.contentHtml ?? "" }} />
      <Like {...post} />
      <h2>{post.commentCount} comments</h2>
      <CommentForm postId={id} />
      {post.comments.edges.map(({ node }) => <p key={node.id}><b>{node.author.username}</b> {node.content}</p>)}
    </>
  );
}
