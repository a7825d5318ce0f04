import assert from "node:assert/strict";
import { test } from "node:test";
import { gql, InMemoryCache } from "@apollo/client";
import { cacheConfig, prepend } from "byline-client/apollo";

const FEED = gql`query Feed($after: String) { feed(after: $after) { edges { node { id } } pageInfo { hasNextPage endCursor } } }`;
const edge = (id) => ({ __typename: "PostEdge", node: { __typename: "Post", id } });

/** read puts a page of the feed into the cache, as its posts and whether there are more. */
function read(cache, ids, more, after) {
  const pageInfo = { __typename: "PageInfo", hasNextPage: more, endCursor: ids.at(-1) ?? null };
  const feed = { __typename: "PostConnection", edges: [...ids].map(edge), pageInfo };
  cache.writeQuery({ query: FEED, variables: { after }, data: { feed } });
}

const shown = (cache) => {
  const { edges, pageInfo } = cache.readQuery({ query: FEED }).feed;
  return edges.map(({ node }) => node.id).join("") + (pageInfo.hasNextPage ? `+${pageInfo.endCursor}` : "");
};

for (const [name, change, want] of [
  ["the next page -> appended", () => {}, "abcd+d"],
  ["the first page again -> later pages stay", (cache) => read(cache, "xab", true), "xabcd+d"],
  ["an empty last page -> the end", (cache) => read(cache, "", false, "d"), "abcd"],
  ["a deleted post -> removed", (cache) => read(cache, "bc", true), "bcd+d"],
  ["only new posts -> the pages after the gap are dropped", (cache) => read(cache, "xyz", true), "xyz+z"],
  ["the only page -> the rest is dropped", (cache) => read(cache, "ab", false), "ab"],
  ["the second page again -> in its place", (cache) => { read(cache, "e", true, "d"); read(cache, "cd", true, "b"); }, "abcde+e"],
  ["an evicted post -> removed", (cache) => cache.evict({ id: "Post:b" }), "acd+d"],
  ["a new post -> at the top", (cache) => prepend(cache, "feed", edge("x")), "xabcd+d"],
  ["a new post that has been read -> once", (cache) => { read(cache, "xab", true); prepend(cache, "feed", edge("x")); }, "xabcd+d"],
]) {
  test(name, () => {
    const cache = new InMemoryCache(cacheConfig);
    read(cache, "ab", true);
    read(cache, "cd", true, "b");
    change(cache);
    assert.equal(shown(cache), want);
  });
}

test("a comment enters the lists that begin with the newest", () => {
  const cache = new InMemoryCache(cacheConfig);
  const query = gql`query($order: SortOrder) { post(id: "p") { id comments(order: $order) { edges { node { id } } } } }`;
  for (const order of ["NEWEST_FIRST", "OLDEST_FIRST"]) {
    const comments = { __typename: "CommentConnection", edges: [] };
    cache.writeQuery({ query, variables: { order }, data: { post: { __typename: "Post", id: "p", comments } } });
  }
  const node = { __typename: "Comment", id: "c" };
  prepend(cache, "comments", { __typename: "CommentEdge", node }, { __typename: "Post", id: "p" });
  const count = (order) => cache.readQuery({ query, variables: { order } }).post.comments.edges.length;
  assert.deepEqual([count("NEWEST_FIRST"), count("OLDEST_FIRST")], [1, 0]);
});
