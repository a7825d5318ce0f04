// The edge of a mutation's payload enters a list in the cache, without reading the list again: it is the edge that the list
// has when it is read. As user ada, who must exist, with the documented setups.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { before, describe, test } from "node:test";
import { promisify } from "node:util";

import { gql } from "@apollo/client";
import { transformAsync } from "@babel/core";
import relay from "relay-runtime";
import { pipe, subscribe } from "wonka";
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // browsers have it
globalThis.provider = async () => "demo:ada"; // of tokens

const LIST = `query EdgesListQuery($id: ID!, $after: String) {
  post(id: $id) { id comments(first: 10, after: $after) { edges { __typename cursor node { id content } } } }
}`;
const COMMENT = `mutation EdgesCommentMutation($id: ID!) {
  createComment(input: { postId: $id, content: "new" }) { commentEdge { __typename cursor node { id content } } }
}`;
const PUBLISH = `mutation EdgesPublishMutation { createPost(input: { title: "edges", content: "x" }) { post { id } postEdge { cursor node { id } } } }`;
const OWN = `query EdgesOwnQuery($after: String) { viewer { posts(first: 1, after: $after) { edges { cursor node { id } } } } }`;

const contents = ({ post }) => post.comments.edges.map(({ node }) => node.content);

let execute; // a request that no cache sees
before(async () => {
  const { byline } = await import("./built/byline.js");
  execute = async (query, variables) => {
    const { data, errors } = await byline.execute({ query, variables });
    assert.equal(errors, undefined);
    return data;
  };
});

/** commented returns the id of a post with one comment. */
async function commented() {
  const { createPost } = await execute(PUBLISH);
  await execute(COMMENT, { id: createPost.post.id });
  return createPost.post.id;
}

/** checkEdge checks that a list begins with the edge when it is read, and that its cursor is one of the list. */
async function checkEdge(id, edge) {
  const { post } = await execute(LIST, { id });
  assert.equal(edge.node.id, post.comments.edges[0].node.id);
  assert.equal(edge.cursor, post.comments.edges[0].cursor);
  const rest = await execute(LIST, { id, after: edge.cursor });
  assert.deepEqual(rest.post.comments.edges, post.comments.edges.slice(1));
}

const writeRelay = async (module, documents) => {
  await mkdir("relay/__generated__", { recursive: true });
  await writeFile(`relay/${module}.js`, documents.map((document) => `graphql\`${document}\`;\n`).join(""));
};

/** compileRelay compiles the documents in relay, and returns a function that loads one. */
async function compileRelay() {
  await copyFile("schema.graphqls", "relay/schema.graphql");
  await promisify(execFile)("node_modules/.bin/relay-compiler", ["relay.config.json"]);
  return async (name) => (await import(`./relay/__generated__/${name}.graphql.js`)).default;
}

test("a post's edge is one of its author's posts", async () => {
  const { createPost: older } = await execute(PUBLISH);
  const { createPost } = await execute(PUBLISH);
  const newest = await execute(OWN, {});
  assert.deepEqual(newest.viewer.posts.edges, [createPost.postEdge]);
  const second = await execute(OWN, { after: createPost.postEdge.cursor });
  assert.deepEqual(second.viewer.posts.edges.map(({ node }) => node), [older.postEdge.node]);
});

describe("a comment's edge enters the list in the cache", () => {
  test("Apollo Client", async () => {
    const { client } = await import("./built/apollo.js");
    const variables = { id: await commented() };
    const list = { query: gql(LIST), variables };
    await client.query(list);
    const { data } = await client.mutate({
      mutation: gql(COMMENT),
      variables,
      update: (cache, { data }) =>
        cache.modify({
          id: cache.identify({ __typename: "Post", ...variables }),
          fields: { comments: (old) => ({ ...old, edges: [data.createComment.commentEdge, ...old.edges] }) },
        }),
    });
    assert.deepEqual(contents(client.readQuery(list)), ["new", "new"]);
    await checkEdge(variables.id, data.createComment.commentEdge);
  });

  test("urql", async () => {
    const { client } = await import("./built/urql.js");
    const variables = { id: await commented() };
    let edges; // the application's list
    const { unsubscribe } = pipe(
      client.query(LIST, variables, { requestPolicy: "network-only" }),
      subscribe(({ data, stale }) => {
        if (!stale) edges ??= data.post.comments.edges;
      }),
    );
    while (!edges) await new Promise(setImmediate);
    unsubscribe(); // the cacheExchange would read the list again
    const { data } = await client.mutation(COMMENT, variables);
    edges = [data.createComment.commentEdge, ...edges];
    assert.deepEqual(contents({ post: { comments: { edges } } }), ["new", "new"]);
    await checkEdge(variables.id, data.createComment.commentEdge);
  });

  test("Relay", async () => {
    const list = LIST.replace("after: $after)", 'after: $after) @connection(key: "Edges_comments")');
    const comment = COMMENT.replace("$id: ID!", "$id: ID!, $connections: [ID!]!").replace("commentEdge", "commentEdge @prependEdge(connections: $connections)");
    await writeRelay("Edges", [list, comment]);
    const compiled = await compileRelay();

    const { environment } = await import("./built/relay.js");
    const id = await commented();
    const query = await compiled("EdgesListQuery");
    const operation = relay.createOperationDescriptor(relay.getRequest(query), { id });
    const retained = environment.retain(operation);
    await relay.fetchQuery(environment, query, { id }).toPromise();
    const connections = [relay.ConnectionHandler.getConnectionID(id, "Edges_comments")];
    const mutation = await compiled("EdgesCommentMutation");
    const data = await new Promise((resolve, reject) =>
      relay.commitMutation(environment, {
        mutation,
        variables: { id, connections },
        onError: reject,
        onCompleted: (data, errors) => (errors ? reject(errors) : resolve(data)),
      }),
    );
    assert.deepEqual(contents(environment.lookup(operation.fragment).data), ["new", "new"]);
    await checkEdge(id, data.createComment.commentEdge);
    retained.dispose();
  });
});

test("Relay: a list whose first page is read again keeps its pages", async (t) => {
  const list = `query NewestListQuery($after: String) {
    feed(first: 2, after: $after) @connection(key: "Newest_feed") { edges { node { id title } } pageInfo { hasNextPage endCursor } }
  }`;
  const code = await readFile("built/readNewest.js", "utf8");
  await writeRelay("Newest", [list]);
  await writeFile("relay/readNewest.js", code);
  const compiled = await compileRelay();
  const bundled = await transformAsync(code, { plugins: [["relay", { eagerEsModules: true }]], filename: "built/readNewest.js" });
  await writeFile("built/readNewest.bundled.js", bundled.code // what bundlers do for Node
    .replace(/import (\{.*\}) from "relay-runtime"/, 'import relay from "relay-runtime"; const $1 = relay')
    .replace(/"[^"]*__generated__\/(.*)\.graphql"/, '"../relay/__generated__/$1.graphql.js"'));
  const { readNewest } = await import("./built/readNewest.bundled.js");
  const { environment } = await import("./built/relay.js");

  const publish = async (...titles) => {
    for (const title of titles) await execute(`mutation($t: String!) { createPost(input: { title: $t, content: "x" }) { post { id } } }`, { t: title });
  };
  await publish("a", "b", "c", "d", "e");
  const query = await compiled("NewestListQuery");
  const read = (variables) => relay.fetchQuery(environment, query, variables, { networkCacheConfig: { force: true } }).toPromise();
  const operation = relay.createOperationDescriptor(relay.getRequest(query), {});
  t.after(environment.retain(operation).dispose);
  const shown = () => environment.lookup(operation.fragment).data.feed.edges.map(({ node }) => node.title).join("");
  await read({});
  await read({ after: environment.lookup(operation.fragment).data.feed.pageInfo.endCursor });
  assert.equal(shown(), "edcb");

  const connection = relay.ConnectionHandler.getConnectionID("client:root", "Newest_feed");
  let restarts = 0;
  const again = async () => {
    const reading = readNewest(connection, () => restarts++);
    while (!reading.closed) await new Promise(setImmediate);
  };
  await publish("f", "g");
  await again();
  assert.equal(shown(), "gfedcb");
  await publish(..."hijklmnopqrstuvwxyzAB");
  await again();
  assert.equal(shown(), "gfedcb");
  assert.equal(restarts, 1);
});
