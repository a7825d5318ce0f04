// Part of an application, compiled with the documented files and the types that graphql-codegen makes.
import type { ResultOf, VariablesOf } from "@graphql-typed-document-node/core";
import { useFragment, type FragmentType } from "./gql";
import { graphql } from "./gql";

const Card = graphql(`
  fragment Card on Post {
    id
    title
    content
    createdAt
    updatedAt
    author {
      username
    }
  }
`);

const Feed = graphql(`
  query Cards($first: Int, $after: String) {
    feed(first: $first, after: $after) {
      edges {
        node {
          ...Card
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
`);

const Comment = graphql(`
  mutation CardComment($input: CreateCommentInput!) {
    createComment(input: $input) {
      post {
        id
        commentCount
      }
    }
  }
`);

const Changed = graphql(`
  subscription CardChanged($id: ID!) {
    postChanged(id: $id) {
      ...Card
    }
  }
`);

export function card(post: FragmentType<typeof Card>): string {
  const { title, content, createdAt, updatedAt, author } = useFragment(Card, post);
  const certain: [string, string, string] = [title, createdAt, author.username];
  const perhaps: [string | null | undefined, string | null | undefined] = [content, updatedAt];
  // @ts-expect-error: the content may be null.
  content.length;
  return [...certain, ...perhaps].join();
}

export const cards = ({ feed }: ResultOf<typeof Feed>): string[] => feed.edges.map((edge) => card(edge.node));
export const changed = ({ postChanged }: ResultOf<typeof Changed>): string => card(postChanged);
export const count = ({ createComment }: ResultOf<typeof Comment>): number | undefined => createComment?.post.commentCount;

export const nextPage: VariablesOf<typeof Feed> = { after: "cursor" };
export const comment: VariablesOf<typeof Comment> = { input: { postId: "id", content: "Well said." } };
// @ts-expect-error: a comment is on a post.
export const nowhere: VariablesOf<typeof Comment> = { input: { content: "Well said." } };
