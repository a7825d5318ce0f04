// The part of Byline's schema that BenchmarkCPU asks for, on PostgreSQL: what the peers have in common.
import { getArgumentValues } from 'graphql'

export const typeDefs = `
  scalar DateTime
  type Query {
    user(id: ID!): User
    post(id: ID!): Post
    feed(first: Int = 20, after: String): PostConnection!
  }
  type Mutation {
    createComment(input: CreateCommentInput!): CreateCommentPayload!
    likePost(input: LikePostInput!): LikePostPayload!
  }
  type User { id: ID! username: String! createdAt: DateTime posts(first: Int = 20, after: String): PostConnection! }
  type Post {
    id: ID! title: String! excerpt: String! content: String author: User!
    commentCount: Int! likeCount: Int! createdAt: DateTime!
    comments(first: Int = 20, after: String): CommentConnection!
    likes(first: Int = 20, after: String): LikeConnection!
  }
  type Comment { id: ID! author: User! content: String! createdAt: DateTime! }
  type Like { id: ID! user: User! createdAt: DateTime! }
  type PostConnection { edges: [PostEdge!]! pageInfo: PageInfo! }
  type PostEdge { cursor: String! node: Post! }
  type CommentConnection { edges: [CommentEdge!]! pageInfo: PageInfo! }
  type CommentEdge { cursor: String! node: Comment! }
  type LikeConnection { edges: [LikeEdge!]! pageInfo: PageInfo! }
  type LikeEdge { cursor: String! node: Like! }
  type PageInfo { hasNextPage: Boolean! endCursor: String }
  input CreateCommentInput { postId: ID! content: String! }
  type CreateCommentPayload { comment: Comment! post: Post! }
  input LikePostInput { postId: ID! }
  type LikePostPayload { like: Like! post: Post! }
`

// A row of a join carries its user.
function withAuthor(row) {
  row.author = { id: row.userId, username: row.username }
  return row
}
function withUser(row) {
  row.user = { id: row.userId, username: row.username }
  return row
}

// page makes a connection of the rows of a list.
function page(rows, first, complete) {
  const hasNextPage = rows.length > first
  const n = hasNextPage ? first : rows.length
  const edges = new Array(n)
  for (let i = 0; i < n; i++) edges[i] = { node: complete(rows[i]) }
  return { edges, pageInfo: { hasNextPage, endCursor: n > 0 ? rows[n - 1].id : null } }
}
const newest = '9223372036854775807'

function known(rows) {
  if (rows.length === 0) throw new Error('no such post, or not signed in')
  return rows[0]
}

// resolvers returns the resolvers. statement makes a function that runs a prepared statement and returns
// its rows, with dates and ids as the response has them.
export function resolvers(statement) {
  const short = `p.id, p.title, p.excerpt, p.comment_count AS "commentCount", p.like_count AS "likeCount", p.created_at AS "createdAt", u.id AS "userId", u.username`
  const userById = statement(`SELECT id, username, created_at AS "createdAt" FROM users WHERE id = $1`)
  const postById = statement(`SELECT ${short}, p.content FROM posts p JOIN users u ON u.id = p.author_id WHERE p.id = $1`)

  // Lists read one row more than they show, to know whether more follow.
  const feed = statement(`SELECT ${short} FROM posts p JOIN users u ON u.id = p.author_id ORDER BY p.id DESC LIMIT $1`)
  const feedAfter = statement(`SELECT ${short} FROM posts p JOIN users u ON u.id = p.author_id
    WHERE p.id < $1 ORDER BY p.id DESC LIMIT $2`)
  const postsOfUser = statement(`SELECT ${short} FROM posts p JOIN users u ON u.id = p.author_id
    WHERE p.author_id = $1 AND p.id < $2 ORDER BY p.id DESC LIMIT $3`)
  const commentsOfPost = statement(`SELECT c.id, c.content, c.created_at AS "createdAt", u.id AS "userId", u.username
    FROM comments c JOIN users u ON u.id = c.author_id WHERE c.post_id = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3`)
  const likesOfPost = statement(`SELECT l.id, l.created_at AS "createdAt", u.id AS "userId", u.username
    FROM likes l JOIN users u ON u.id = l.user_id WHERE l.post_id = $1 AND l.id < $2 ORDER BY l.id DESC LIMIT $3`)

  // A write is one statement, and so one transaction and one round trip.
  const insertComment = statement(`WITH p AS (UPDATE posts SET comment_count = comment_count + 1 FROM users u
      WHERE posts.id = $1 AND u.subject = $2 RETURNING posts.id, comment_count, u.id AS "userId", u.username),
    c AS (INSERT INTO comments (post_id, author_id, content) SELECT id, "userId", $3 FROM p RETURNING id, created_at)
    SELECT c.id, c.created_at AS "createdAt", p."userId", p.username, p.comment_count AS "commentCount" FROM c, p`)
  const insertLike = statement(`WITH l AS (INSERT INTO likes (post_id, user_id) SELECT p.id, u.id FROM posts p, users u
      WHERE p.id = $1 AND u.subject = $2 ON CONFLICT DO NOTHING RETURNING id, created_at, user_id),
    p AS (UPDATE posts SET like_count = like_count + 1 FROM l WHERE posts.id = $1 RETURNING like_count)
    SELECT l.id, l.created_at AS "createdAt", u.id AS "userId", u.username, p.like_count AS "likeCount"
    FROM l JOIN users u ON u.id = l.user_id, p`)
  const likeAgain = statement(`SELECT l.id, l.created_at AS "createdAt", u.id AS "userId", u.username, p.like_count AS "likeCount"
    FROM posts p, users u, likes l WHERE p.id = $1 AND u.subject = $2 AND l.post_id = p.id AND l.user_id = u.id`)

  const lists = {
    posts: async (id, { first, after }) => page(await postsOfUser(id, after ?? newest, first + 1), first, withAuthor),
    comments: async (id, { first, after }) => page(await commentsOfPost(id, after ?? newest, first + 1), first, withAuthor),
    likes: async (id, { first, after }) => page(await likesOfPost(id, after ?? newest, first + 1), first, withUser)
  }

  // onlyList returns the list that is all that is selected of an object, if it is. An
  // object whose list is not empty exists, and need not be read to know that.
  const selected = new WeakMap()
  function onlyList({ fieldNodes }) {
    let list = selected.get(fieldNodes[0])
    if (list === undefined) {
      const all = fieldNodes.flatMap(node => node.selectionSet.selections)
      list = all.length === 1 && all[0].kind === 'Field' && !all[0].directives.length && lists[all[0].name.value] ? all[0] : null
      selected.set(fieldNodes[0], list)
    }
    return list
  }
  async function object(read, id, info) {
    const list = onlyList(info)
    if (list !== null) {
      const name = list.name.value
      const found = await lists[name](id, getArgumentValues(info.returnType.getFields()[name], list, info.variableValues))
      if (found.edges.length > 0) return { id, [name]: found }
    }
    return (await read(id))[0] ?? null
  }
  const readPost = async id => (await postById(id)).map(withAuthor)

  const cursor = { cursor: edge => edge.node.id }
  return {
    Query: {
      user: (_, { id }, context, info) => object(userById, id, info),
      post: (_, { id }, context, info) => object(readPost, id, info),
      feed: async (_, { first, after }) =>
        page(after ? await feedAfter(after, first + 1) : await feed(first + 1), first, withAuthor)
    },
    User: { posts: (user, args) => user.posts ?? lists.posts(user.id, args) },
    Post: {
      comments: (post, args) => post.comments ?? lists.comments(post.id, args),
      likes: (post, args) => post.likes ?? lists.likes(post.id, args)
    },
    PostEdge: cursor,
    CommentEdge: cursor,
    LikeEdge: cursor,
    Mutation: {
      createComment: async (_, { input: { postId, content } }, { subject }) => {
        const row = known(await insertComment(postId, subject, content))
        row.content = content
        return { comment: withAuthor(row), post: { id: postId, commentCount: row.commentCount } }
      },
      likePost: async (_, { input: { postId } }, { subject }) => {
        let rows = await insertLike(postId, subject)
        if (rows.length === 0) rows = await likeAgain(postId, subject)
        const row = known(rows)
        return { like: withUser(row), post: { id: postId, likeCount: row.likeCount } }
      }
    }
  }
}

// subject returns who sends a request with this Authorization.
export const subject = authorization => authorization?.slice('Bearer demo:'.length)
