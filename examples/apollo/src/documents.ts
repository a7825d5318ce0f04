import { graphql } from "./gql/index.ts";

export const FEED = graphql(`
  query Feed($after: String) {
    feed(after: $after) {
      edges { node { id title commentCount createdAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
`);
export const PUBLISHED = graphql(`subscription Published { postPublished { id title commentCount createdAt } }`);
export const LIKE = graphql(`mutation Like($id: ID!) {
  likePost(input: { postId: $id }) { __typename post { __typename id likeCount viewerHasLiked } }
}`);
export const UNLIKE = graphql(`mutation Unlike($id: ID!) {
  unlikePost(input: { postId: $id }) { __typename post { __typename id likeCount viewerHasLiked } }
}`);
export const COMMENT = graphql(`mutation Comment($input: CreateCommentInput!) {
  createComment(input: $input) {
    commentEdge { __typename cursor node { __typename id content author { id username } } }
    post { id commentCount }
  }
}`);
export const VIEWER = graphql(`query Viewer { viewer { id username } }`);
export const CREATE_USER = graphql(`mutation CreateUser($username: String!) {
  createUser(input: { username: $username }) { user { id username } }
}`);
export const POSTS = graphql(`query Posts($username: String!, $after: String) {
  userByUsername(username: $username) {
    id
    posts(first: 20, after: $after) { totalCount edges { node { id title } } pageInfo { hasNextPage endCursor } }
  }
}`);
