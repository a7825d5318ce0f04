// The clients that single-page applications use, against a running server:
//
//   GRAPHQL_URL=http://localhost:8080/graphql node --test clients.test.mjs
//
// Each client queries, mutates and subscribes, as user ada, who must exist. Tests count what
// mutations have written, and the requests that were sent.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import net from "node:net";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import * as urql from "@urql/core";
import { persistedExchange } from "@urql/exchange-persisted";
import { createByline } from "byline-client";
import { cacheConfig, createLink, live, prepend } from "byline-client/apollo";
import { socketExchange } from "byline-client/urql";
import * as sse from "graphql-sse";
import * as ws from "graphql-ws";
import { onEnd, pipe, subscribe } from "wonka";
import WebSocket from "ws";

const url = process.env.GRAPHQL_URL;
const socketURL = url.replace(/^http/, "ws");
const authorization = "Bearer demo:ada";
const headers = { authorization };
const timeout = 60_000; // milliseconds; usually a few are enough

const POST = `query Post($id: ID!) { post(id: $id) { id title author { id username } commentCount } }`;
const COMMENT = `mutation Comment($input: CreateCommentInput!) {
  createComment(input: $input) { comment { id content } post { id commentCount } }
}`;
const COMMENT_ADDED = `subscription CommentAdded($postId: ID!) {
  commentAdded(postId: $postId) { id content author { id username } }
}`;

/** execute is the test's own way to the server: what it sees is not the client's doing. */
async function execute(query, variables) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await response.json();
  assert.equal(errors, undefined);
  return data;
}

/** newPost returns the id of a post of the test's own. */
async function newPost(title) {
  const mutation = `mutation($input: CreatePostInput!) { createPost(input: $input) { post { id } } }`;
  return (await execute(mutation, { input: { title, content: "x" } })).createPost.post.id;
}

/** comments returns what the post's comments say. */
async function comments(post) {
  const query = `query($id: ID!) { post(id: $id) { comments(first: 100) { edges { node { content } } } } }`;
  return (await execute(query, { id: post })).post.comments.edges.map((edge) => edge.node.content);
}

/** recorder returns a fetch, and what was requested by it: each with the document's text or with its hash alone. */
function recorder() {
  const requests = [];
  const recording = (input, init) => {
    const { query } = init.method === "GET" ? Object.fromEntries(new URL(input).searchParams) : JSON.parse(init.body);
    requests.push(`${init.method} ${query ? "text" : "hash"}`);
    return fetch(input, init);
  };
  return { requests, fetch: recording };
}

/** fresh returns the document under another name, so that nobody has persisted it yet. */
const fresh = (document) => document.replace(/\(/, `${Date.now()}(`);

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/** signal returns a promise with what settles it. */
function signal() {
  const s = { settled: false };
  s.promise = new Promise((resolve, reject) => Object.assign(s, { resolve, reject })).finally(() => (s.settled = true));
  s.promise.catch(() => {}); // a rejection without awaiter is not an error
  return s;
}

/** within fails if what is promised takes too long. */
function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${timeout} ms`)), timeout);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * receives subscribes to the comments of a post, writes until one arrives, because a
 * client does not learn when its subscription has begun, and deletes the post, which
 * ends the subscription. subscribe(variables, sink) returns how to stop.
 */
async function receives(subscribe) {
  const post = await newPost("to follow");
  const received = signal();
  const ended = signal();
  const fail = (error) => [received, ended].forEach((s) => s.reject(error));
  const stop = subscribe({ postId: post }, { next: received.resolve, error: fail, complete: ended.resolve });
  try {
    const written = [];
    for (const deadline = Date.now() + timeout; !received.settled && Date.now() < deadline; ) {
      written.push(`comment ${written.length}`);
      await execute(COMMENT, { input: { postId: post, content: written.at(-1) } });
      await Promise.race([received.promise, sleep(500)]);
    }
    const { data, errors } = await within(received.promise, "event");
    assert.equal(errors, undefined);
    assert.ok(written.includes(data.commentAdded.content), data.commentAdded.content);
    assert.equal(data.commentAdded.author.username, "ada");

    await execute(`mutation($id: ID!) { deletePost(input: { id: $id }) { deletedPostId } }`, { id: post });
    await within(ended.promise, "end");
  } finally {
    stop();
  }
}

/** proxy forwards connections to the server. While it is down, connections are refused, as while a server restarts. */
async function proxy(t) {
  const open = new Set();
  const to = { host: new URL(url).hostname.replace(/^\[|\]$/g, ""), port: new URL(url).port };
  const server = net.createServer((client) => {
    const upstream = net.connect(to);
    for (const [from, into] of [[client, upstream], [upstream, client]]) {
      open.add(from);
      from.on("error", () => {}).on("close", () => into.destroy() && open.delete(from)).pipe(into);
    }
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const down = () => {
    const closed = new Promise((resolve) => server.close(resolve));
    open.forEach((socket) => socket.destroy());
    return closed;
  };
  await listen(0);
  const { port } = server.address();
  t.after(down);
  return { url: `http://127.0.0.1:${port}${new URL(url).pathname}`, down, up: () => listen(port) };
}

/** survives checks that a subscription receives events again after its server has restarted. */
async function survives(t, connect) {
  const server = await proxy(t);
  const refused = signal();
  const post = await newPost("to follow");
  let received = signal();
  let lost = 0;
  const byline = createByline({
    url: server.url,
    token: () => "demo:ada",
    pause: () => sleep(100),
    onConnection: (connected) => (lost = connected ? 0 : lost + 1) > 1 && refused.resolve(), // 1: the connection that was open
  });
  t.after(() => byline.socket.dispose());
  const next = ({ data, errors }) => (errors ? received.reject(errors[0]) : received.resolve(data.commentAdded.content));
  const stop = connect(byline)({ postId: post }, { next, error: received.reject, complete() {} });
  t.after(stop);
  const write = async (text) => {
    for (const deadline = Date.now() + timeout; !received.settled && Date.now() < deadline; ) {
      await execute(COMMENT, { input: { postId: post, content: text } });
      await Promise.race([received.promise, sleep(500)]);
    }
    assert.equal(await within(received.promise, text), text);
  };
  await write("before");
  received = signal();
  await server.down();
  await within(Promise.race([refused.promise, received.promise]), "refused connection");
  await server.up();
  await write("after");
}

/** once runs a mutation and counts what it has done. mutate(variables) returns data. */
async function once(mutate) {
  const post = await newPost("to comment on");
  const data = await mutate({ input: { postId: post, content: "once" } });
  assert.equal(data.createComment.comment.content, "once");
  assert.equal(data.createComment.post.commentCount, 1);
  assert.deepEqual(await comments(post), ["once"]);
}

before(async () => {
  const { viewer } = await execute(`{ viewer { username } }`);
  assert.equal(viewer?.username, "ada", "the server has no user ada");
});

/** overApollo and overUrql return how a client subscribes to the comments of a post, as receives does it. */
const overApollo = (client) => (variables, sink) => {
  const subscription = client.subscribe({ query: gql(COMMENT_ADDED), variables }).subscribe(sink);
  return () => subscription.unsubscribe();
};

const overUrql = (client) => (variables, { next, error, complete }) => {
  const each = subscribe((result) => (result.error ? error(result.error) : next(result)));
  return pipe(client.subscription(COMMENT_ADDED, variables), onEnd(complete), each).unsubscribe;
};

describe("Apollo Client", () => {
  const client = (...links) =>
    new ApolloClient({ link: ApolloLink.from(links), cache: new InMemoryCache(), defaultOptions: { query: { fetchPolicy: "network-only" } } });

  test("query", async () => {
    const http = recorder();
    const id = await newPost("Apollo");
    const { data } = await client(new HttpLink({ uri: url, fetch: http.fetch })).query({ query: gql(POST), variables: { id } });
    assert.equal(data.post.title, "Apollo");
    assert.deepEqual(http.requests, ["POST text"]);
  });

  test("query by GET", async () => {
    const http = recorder();
    const id = await newPost("Apollo");
    const link = new HttpLink({ uri: url, fetch: http.fetch, useGETForQueries: true });
    const { data } = await client(link).query({ query: gql(POST), variables: { id } });
    assert.equal(data.post.title, "Apollo");
    assert.deepEqual(http.requests, ["GET text"]);
  });

  test("mutation, once", async () => {
    const http = recorder();
    const apollo = client(new HttpLink({ uri: url, headers, fetch: http.fetch }));
    await once(async (variables) => (await apollo.mutate({ mutation: gql(COMMENT), variables })).data);
    assert.deepEqual(http.requests, ["POST text"]);
  });

  test("mutation response updates the cache", async () => {
    const id = await newPost("Apollo");
    const apollo = client(new HttpLink({ uri: url, headers }));
    const variables = { id };
    await apollo.query({ query: gql(POST), variables });
    await apollo.mutate({ mutation: gql(COMMENT), variables: { input: { postId: id, content: "x" } } });
    assert.equal(apollo.readQuery({ query: gql(POST), variables }).post.commentCount, 1);
  });

  test("an error keeps its code", async () => {
    const apollo = client(new HttpLink({ uri: url }));
    const variables = { input: { postId: await newPost("Apollo"), content: "x" } };
    await assert.rejects(apollo.mutate({ mutation: gql(COMMENT), variables }), (error) => {
      assert.equal(error.errors?.[0].extensions.code, "UNAUTHENTICATED");
      return true;
    });
  });

  test("persisted query by GET, and mutation, once", async () => {
    const http = recorder();
    const persisted = new PersistedQueryLink({ sha256, useGETForHashedQueries: true });
    const apollo = client(persisted, new HttpLink({ uri: url, headers, fetch: http.fetch }));
    const query = gql(fresh(POST));
    for (const title of ["first", "second"]) {
      const { data } = await apollo.query({ query, variables: { id: await newPost(title) } });
      assert.equal(data.post.title, title);
    }
    assert.deepEqual(http.requests.splice(0), ["GET hash", "POST text", "GET hash"]);

    const mutation = gql(fresh(COMMENT));
    for (let n = 0; n < 2; n++) {
      await once(async (variables) => (await apollo.mutate({ mutation, variables })).data);
    }
    assert.deepEqual(http.requests, ["POST hash", "POST text", "POST hash"]);
  });

  test("subscription", async (t) => {
    const socket = ws.createClient({ url: socketURL, webSocketImpl: WebSocket });
    t.after(() => socket.dispose());
    await receives(overApollo(client(new GraphQLWsLink(socket))));
  });
});

describe("Apollo Client's cache", () => {
  const FEED = gql`query Feed { feed(first: 50) { edges { cursor node { id title } } pageInfo { hasNextPage endCursor } } }`;
  const titles = (result) => result.data.feed.edges.map(({ node }) => node.title);

  test("a created post enters the feed by a refetch, a deleted one is evicted", async (t) => {
    const apollo = new ApolloClient({
      link: new HttpLink({ uri: url, headers }),
      cache: new InMemoryCache({ typePolicies: { Query: { fields: { feed: relayStylePagination() } } } }),
    });
    const feed = apollo.watchQuery({ query: FEED });
    const watching = feed.subscribe(() => {});
    t.after(() => watching.unsubscribe());
    await feed.refetch();
    const title = `created ${Date.now()}`;
    const create = gql`mutation($input: CreatePostInput!) { createPost(input: $input) { post { id title } } }`;
    const variables = { input: { title, content: "x" } };
    const { data } = await apollo.mutate({ mutation: create, variables, refetchQueries: ["Feed"], awaitRefetchQueries: true });
    assert.equal(titles(feed.getCurrentResult())[0], title);

    await apollo.mutate({
      mutation: gql`mutation($id: ID!) { deletePost(input: { id: $id }) { deletedPostId } }`,
      variables: { id: data.createPost.post.id },
      update: (cache, { data }) =>
        cache.evict({ id: cache.identify({ __typename: "Post", id: data.deletePost.deletedPostId }) }),
    });
    assert.ok(!titles({ data: apollo.readQuery({ query: FEED }) }).includes(title));
  });
});

describe("a restart of the server", () => {
  test("graphql-ws", (t) =>
    survives(t, (byline) => (variables, sink) => byline.socket.subscribe({ query: COMMENT_ADDED, variables }, sink)));

  test("Apollo Client", (t) =>
    survives(t, (byline) => overApollo(new ApolloClient({ link: createLink(byline), cache: new InMemoryCache(cacheConfig) }))));

  test("urql", (t) =>
    survives(t, (byline) => overUrql(new urql.Client({ url, exchanges: [socketExchange(byline)] }))));
});

describe("urql", () => {
  const client = (exchanges, options) => new urql.Client({ url, exchanges, requestPolicy: "network-only", ...options });
  const data = ({ data, error }) => {
    assert.equal(error?.message, undefined);
    return data;
  };
  test("query, by GET as it does", async () => {
    const http = recorder();
    const id = await newPost("urql");
    const { post } = data(await client([urql.fetchExchange], { fetch: http.fetch }).query(POST, { id }));
    assert.equal(post.title, "urql");
    assert.deepEqual(http.requests, ["GET text"]);
  });

  test("a deletion with additionalTypenames reads queries again", async () => {
    const http = recorder();
    const id = await newPost("urql");
    const u = client([urql.cacheExchange, urql.fetchExchange], { fetch: http.fetch, fetchOptions: { headers }, requestPolicy: "cache-first" });
    const mutation = `mutation($id: ID!) { deletePost(input: { id: $id }) { deletedPostId } }`;
    assert.equal(data(await u.query(POST, { id })).post.title, "urql");
    assert.equal(data(await u.query(POST, { id })).post.title, "urql");
    assert.deepEqual(http.requests.splice(0), ["GET text"]);
    data(await u.mutation(mutation, { id }, { additionalTypenames: ["Post"] }));
    assert.equal(data(await u.query(POST, { id })).post, null);
  });

  test("query by POST", async () => {
    const http = recorder();
    const id = await newPost("urql");
    const { post } = data(await client([urql.fetchExchange], { fetch: http.fetch, preferGetMethod: false }).query(POST, { id }));
    assert.equal(post.title, "urql");
    assert.deepEqual(http.requests, ["POST text"]);
  });

  test("mutation, once", async () => {
    const http = recorder();
    const u = client([urql.fetchExchange], { fetch: http.fetch, fetchOptions: { headers } });
    await once(async (variables) => data(await u.mutation(COMMENT, variables)));
    assert.deepEqual(http.requests, ["POST text"]);
  });

  test("an error keeps its code", async () => {
    const variables = { input: { postId: await newPost("urql"), content: "x" } };
    const { error } = await client([urql.fetchExchange]).mutation(COMMENT, variables);
    assert.equal(error?.graphQLErrors[0]?.extensions.code, "UNAUTHENTICATED");
  });

  test("persisted query by GET, and mutation, once", async () => {
    const http = recorder();
    const u = client([persistedExchange({ preferGetForPersistedQueries: true, enableForMutation: true }), urql.fetchExchange], {
      fetch: http.fetch,
      fetchOptions: { headers },
    });
    const query = fresh(POST);
    for (const title of ["first", "second"]) {
      const { post } = data(await u.query(query, { id: await newPost(title) }));
      assert.equal(post.title, title);
    }
    assert.deepEqual(http.requests.splice(0), ["GET hash", "GET text", "GET hash"]);

    const mutation = fresh(COMMENT);
    for (let n = 0; n < 2; n++) {
      await once(async (variables) => data(await u.mutation(mutation, variables)));
    }
    assert.deepEqual(http.requests, ["POST hash", "POST text", "POST hash"]);
  });

  test("subscription over WebSocket", async (t) => {
    const socket = ws.createClient({ url: socketURL, webSocketImpl: WebSocket });
    t.after(() => socket.dispose());
    const forwardSubscription = ({ query, ...rest }) => ({
      subscribe: (sink) => ({ unsubscribe: socket.subscribe({ query, ...rest }, sink) }),
    });
    await receives(overUrql(client([urql.subscriptionExchange({ forwardSubscription })])));
  });

  test("subscription as an event stream", () => receives(overUrql(client([urql.fetchExchange], { fetchSubscriptions: true }))));
});

// graphql-ws and graphql-sse have the same interface.
for (const [name, connect] of [
  ["graphql-ws", () => ws.createClient({ url: socketURL, webSocketImpl: WebSocket, connectionParams: { authorization }, retryAttempts: 0 })],
  ["graphql-sse", () => sse.createClient({ url, headers, retryAttempts: 0 })],
]) {
  describe(name, () => {
    /** one executes what has one result, and returns its data. */
    async function one(client, operation) {
      const { promise, resolve, reject } = signal();
      let result;
      client.subscribe(operation, { next: (r) => (result = r), error: reject, complete: () => resolve(result) });
      const { data, errors } = await within(promise, "result");
      assert.equal(errors, undefined);
      return data;
    }

    test("query", async (t) => {
      const client = connect();
      t.after(() => client.dispose());
      const id = await newPost(name);
      const { post } = await one(client, { query: POST, variables: { id } });
      assert.equal(post.title, name);
    });

    test("persisted query", async (t) => {
      const client = connect();
      t.after(() => client.dispose());
      const id = await newPost(name);
      const query = fresh(POST);
      const hashed = { variables: { id }, extensions: { persistedQuery: { version: 1, sha256Hash: sha256(query) } } };
      await one(client, { query, ...hashed });
      const { post } = await one(client, { query: "", ...hashed });
      assert.equal(post.title, name);
    });

    test("mutation, once", async (t) => {
      const client = connect();
      t.after(() => client.dispose());
      await once((variables) => one(client, { query: COMMENT, variables }));
    });

    test("subscription", async (t) => {
      const client = connect();
      t.after(() => client.dispose());
      await receives((variables, sink) => client.subscribe({ query: COMMENT_ADDED, variables }, sink));
    });
  });
}

// The files of docs/graphql.md and docs/auth.md are in built. They import provider.js, which each application writes itself.
describe("the documented setups", async () => {
  const tokens = []; // the tokens that the provider issues next; a valid one if empty
  const fetched = [];
  let hold; // a promise that the provider awaits
  globalThis.provider = async () => {
    await hold;
    fetched.push(tokens.shift() ?? "demo:ada");
    return fetched.at(-1);
  };
  let refusals = 0; // how many more subscriptions are refused
  const closed = []; // the codes of connections
  globalThis.WebSocket = class extends WebSocket { // browsers have one
    constructor(...args) {
      super(...args);
      this.on("close", (code) => closed.push(code));
    }

    send(message) {
      const { id, type } = JSON.parse(message);
      if (type !== "subscribe" || --refusals < 0) return super.send(message);
      const payload = [{ message: "too many", extensions: { code: "THROTTLED", retryAfterMs: 100 } }];
      setTimeout(() => this.onmessage({ data: JSON.stringify({ id, type: "error", payload }) }));
    }
  };
  const { byline } = await import("./built/byline.js");
  const { socket } = byline;
  after(() => socket.dispose());

  /** expire has the client use a token that is not valid, and the provider issue these next. */
  const expire = async (...next) => {
    tokens.splice(0, Infinity, "expired");
    await byline.refresh();
    assert.equal(fetched.at(-1), "expired");
    tokens.push(...next);
    fetched.length = 0;
  };

  /** answers records the codes of the answers to what fetch requests. */
  const original = globalThis.fetch;
  const answers = (t) => {
    const codes = [];
    t.mock.method(globalThis, "fetch", async (...request) => {
      const response = await original(...request);
      const { errors } = await response.clone().json();
      codes.push(errors?.[0].extensions.code);
      return response;
    });
    return codes;
  };

  for (const [name, query, mutate] of [
    ["Apollo Client", async () => {
      const { client } = await import("./built/apollo.js");
      return (variables) => client.query({ query: gql(POST), variables, fetchPolicy: "network-only" });
    }, async () => {
      const { client } = await import("./built/apollo.js");
      return async (variables) => (await client.mutate({ mutation: gql(COMMENT), variables })).data;
    }],
    ["urql", async () => {
      const { client } = await import("./built/urql.js");
      return async (variables) => {
        const { data, error } = await client.query(POST, variables, { requestPolicy: "network-only" });
        if (error) throw Object.assign(error, { errors: error.graphQLErrors });
        return { data };
      };
    }, async () => {
      const { client } = await import("./built/urql.js");
      return async (variables) => (await client.mutation(COMMENT, variables)).data;
    }],
    ["without a client library", async () => {
      return async (variables) => {
        const { data, errors } = await byline.execute({ query: POST, variables });
        if (errors) throw Object.assign(new Error(errors[0].message), { errors });
        return { data };
      };
    }, async () => {
      return async (variables) => (await byline.execute({ query: COMMENT, variables })).data;
    }],
  ]) {
    test(`${name}: public query is retried with a new token`, async (t) => {
      const id = await newPost(name);
      const run = await query();
      await expire();
      const codes = answers(t);
      const { data } = await within(run({ id }), "query");
      assert.equal(data.post.title, name);
      assert.deepEqual(codes, ["UNAUTHENTICATED", undefined]);
      assert.deepEqual(fetched, ["demo:ada"]);
    });

    test(`${name}: mutation is retried, and executed once`, async () => {
      const run = await mutate();
      await expire();
      await once((variables) => within(run(variables), "mutation"));
      assert.deepEqual(fetched, ["demo:ada"]);
    });

    test(`${name}: operations that wait for a token share it`, async (t) => {
      const ids = [await newPost("one"), await newPost("two")];
      const run = await query();
      await expire();
      const codes = answers(t);
      hold = (async () => {
        while (codes.length < 2) await sleep(10);
      })();
      const all = await within(Promise.all(ids.map((id) => run({ id }))), "queries");
      assert.deepEqual(all.map(({ data }) => data.post.title), ["one", "two"]);
      assert.deepEqual(fetched, ["demo:ada"]);
    });

    test(`${name}: a new token that is invalid, too, is an error`, async () => {
      const id = await newPost(name);
      const run = await query();
      await expire("expired too");
      await assert.rejects(within(run({ id }), "query"), (error) => error.errors?.[0].extensions.code === "UNAUTHENTICATED");
      assert.deepEqual(fetched, ["expired too"]);
    });
  }

  test("graphql-ws: the connection is opened again with a new token", async (t) => {
    await expire();
    const reads = [signal(), signal()]; // after the start, and after the connection
    let read = 0;
    t.after(byline.readAgain(() => reads[read++]?.resolve()));
    await within(reads[0].promise, "read after the start");
    closed.length = 0;
    await receives((variables, sink) => socket.subscribe({ query: COMMENT_ADDED, variables }, sink));
    assert.equal(closed[0], 4403);
    assert.ok(!closed.slice(1).includes(4403));
    assert.deepEqual(fetched, ["demo:ada"]);
    await within(reads[1].promise, "read after the connection");
  });

  test("graphql-ws: a subscription ends when the provider issues no token", async (t) => {
    await expire();
    t.mock.method(globalThis, "provider", () => Promise.reject(new Error("login_required")));
    const ended = signal();
    socket.subscribe({ query: "subscription { postPublished { id } }" }, { next() {}, error: ended.reject, complete: ended.resolve });
    await assert.rejects(within(ended.promise, "end"), /login_required/);
    t.mock.restoreAll();
    await byline.refresh();
  });

  for (const [name, setup, codeOf] of [
    ["graphql-ws", async () => (variables, sink) => socket.subscribe({ query: COMMENT_ADDED, variables }, sink), (errors) => errors[0].extensions.code],
    ["Apollo Client", async () => {
      const { client } = await import("./built/apollo.js");
      const next = (sink) => ({ error }) => error && sink.error(error);
      return (variables, sink) => overApollo(client)(variables, { ...sink, next: next(sink) });
    }, (error) => error.errors[0].extensions.code],
  ]) {
    test(`${name}: a new token that is invalid, too, ends a subscription`, async (t) => {
      const subscribe = await setup();
      await expire("expired too");
      const ended = signal();
      t.after(subscribe({ postId: await newPost(name) }, { next() {}, error: ended.resolve, complete: ended.reject }));
      assert.equal(codeOf(await within(ended.promise, "error")), "UNAUTHENTICATED");
      assert.deepEqual(fetched, ["expired too"]);
      await byline.refresh();
    });
  }

  test("graphql-ws: a subscription waits while the provider does not respond", async (t) => {
    await expire();
    let failures = 2;
    const { provider } = globalThis;
    t.mock.method(globalThis, "provider", () => (failures-- > 0 ? Promise.reject(new TypeError("fetch failed")) : provider()));
    await receives((variables, sink) => socket.subscribe({ query: COMMENT_ADDED, variables }, sink));
    assert.equal(failures, -1);
  });

  test("graphql-ws: the session of a mutation is sent with later requests", async (t) => {
    const ended = signal();
    const variables = { input: { postId: await newPost("session"), content: "x" } };
    socket.subscribe({ query: COMMENT, variables }, { next: ended.resolve, error: ended.reject, complete() {} });
    const { extensions } = await within(ended.promise, "mutation");
    const sent = [];
    t.mock.method(globalThis, "fetch", (url, init) => {
      sent.push(init.headers.get("Byline-Session"));
      return original(url, init);
    });
    await byline.execute({ query: "{ viewer { id } }" });
    assert.ok(extensions.session);
    assert.deepEqual(sent, [extensions.session]);
  });

  test("Apollo Client: a live list has what was published before and after it started, once", async (t) => {
    const { client } = await import("./built/apollo.js");
    const FEED = gql`query Feed { feed { edges { node { id title } } pageInfo { hasNextPage endCursor } } }`;
    const PUBLISHED = gql`subscription Published { postPublished { id title } }`;
    const feed = client.watchQuery({ query: FEED, fetchPolicy: "cache-first" });
    const failed = [];
    let titles = [];
    const watching = feed.subscribe(({ data }) => (titles = data?.feed?.edges.map(({ node }) => node.title) ?? []));
    t.after(() => watching.unsubscribe());
    const count = async (title, n) => {
      for (const deadline = Date.now() + timeout; titles.filter((other) => other === title).length !== n; await sleep(50)) {
        assert.ok(Date.now() < deadline, `${title} ${n} times in ${titles}`);
      }
    };
    await feed.refetch();
    await newPost("missed");
    const first = async () => (await execute("{ feed(first: 1) { edges { node { title } } } }")).feed.edges[0].node.title;
    while ((await within(first(), "feed")) !== "missed") await sleep(50);
    assert.notEqual(titles[0], "missed");
    t.after(live(client, byline, {
      list: { query: FEED },
      events: { query: PUBLISHED },
      next: ({ postPublished: node }) => prepend(client.cache, "feed", { node }),
      error: (error) => failed.push(error),
    }));
    await count("missed", 1);
    await newPost("received");
    await count("received", 1);
    await sleep(1500); // the feed is read again
    assert.deepEqual(titles.slice(0, 2), ["received", "missed"]);
    assert.deepEqual(failed, []);
  });

  test("graphql-ws: a subscription that waits can be ended", async () => {
    refusals = 1;
    const end = socket.subscribe({ query: "subscription { postPublished { id } }" }, { next() {}, error() {}, complete() {} });
    while (refusals > 0) await sleep(10);
    await sleep(50); // less than the pause
    end();
    refusals = 1; // of a subscription that would be sent again
    await sleep(2000);
    assert.equal(refusals, 1);
    refusals = 0;
  });

  test("an anonymous visitor has no token", async (t) => {
    t.mock.method(globalThis, "provider", async () => "");
    const { byline } = await import("./built/byline.js?visitor");
    t.mock.method(globalThis, "fetch", (url, init) => {
      assert.equal(init.headers.get("Authorization"), null);
      return original(url, init);
    });
    assert.deepEqual(await byline.execute({ query: "{ viewer { id } }" }), { data: { viewer: null } });
  });

  test("graphql-sse: the events go on after an expired token and a lack of request units", async (t) => {
    await expire();
    const { published } = await import("./built/posts.js");
    const failures = ["UNAUTHENTICATED", "THROTTLED"];
    t.mock.method(globalThis, "fetch", async (...request) => {
      const response = await original(...request);
      const events = response.headers.get("Content-Type").startsWith("text/event-stream");
      const code = events && failures.shift();
      if (!code) return response;
      await response.body.cancel();
      const result = { errors: [{ message: "no", extensions: { code } }] };
      return new Response(`event: next\ndata: ${JSON.stringify(result)}\n\nevent: complete\n\n`, response);
    });
    const control = new AbortController();
    const received = signal();
    const ended = published(received.resolve, control.signal);
    ended.catch(received.reject);
    for (const deadline = Date.now() + timeout; !received.settled && Date.now() < deadline; ) {
      await newPost("published");
      await Promise.race([received.promise, sleep(500)]);
    }
    assert.equal((await within(received.promise, "event")).title, "published");
    control.abort();
    await within(ended, "end");
    assert.deepEqual(failures, []);
    assert.deepEqual(fetched, ["demo:ada", "demo:ada"]);
  });

  for (const [name, setup] of [
    ["graphql-ws", async () => (variables, sink) => socket.subscribe({ query: COMMENT_ADDED, variables }, sink)],
    ["Apollo Client", async () => overApollo((await import("./built/apollo.js")).client)],
    ["urql", async () => overUrql((await import("./built/urql.js")).client)],
  ]) {
    test(`${name}: a subscription that is refused for a time starts later`, async () => {
      const subscribe = await setup();
      refusals = 2;
      await receives(subscribe);
      assert.equal(refusals, -1);
    });
  }
});
