// The documented setups of clients while the views lag: a list that is read again after a mutation has the counts of
// the mutation. GRAPHQL_URLS are two instances, which have posts titled "one 0", "one 1", and so on, by ada.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { after, describe, test } from "node:test";
import { promisify } from "node:util";

import { gql } from "@apollo/client";
import relay from "relay-runtime";
import { pipe, subscribe } from "wonka";
import WebSocket from "ws";

const instances = process.env.GRAPHQL_URLS.split(" ");
const original = globalThis.fetch;
globalThis.WebSocket ??= WebSocket; // browsers have both
globalThis.sessionStorage = { getItem: () => "demo:ada" }; // the viewer's token

const FEED = `query CountsFeedQuery { feed(first: 50) { edges { node { id title likeCount commentCount viewerHasLiked } } } }`;
const mutations = {
  like: `mutation CountsLikeMutation($id: ID!) { likePost(input: { postId: $id }) { post { id likeCount viewerHasLiked } } }`,
  unlike: `mutation CountsUnlikeMutation($id: ID!) { unlikePost(input: { postId: $id }) { post { id likeCount viewerHasLiked } } }`,
  comment: `mutation CountsCommentMutation($id: ID!) {
    createComment(input: { postId: $id, content: "x" }) { comment { id } post { id commentCount } }
  }`,
  uncomment: `mutation CountsUncommentMutation($id: ID!) { deleteComment(input: { id: $id }) { deletedCommentId post { id commentCount } } }`,
};

/** Each client reads the feed, as its documentation says, before the first mutation and again after each. */
const clients = {
  async "Apollo Client"() {
    const { client } = await import("./built/apollo.js");
    const feed = client.watchQuery({ query: gql(FEED) });
    const watching = feed.subscribe(() => {});
    await feed.refetch();
    return {
      mutate: async (mutation, variables) =>
        (await client.mutate({ mutation: gql(mutation), variables, refetchQueries: ["CountsFeedQuery"], awaitRefetchQueries: true })).data,
      feed: () => feed.getCurrentResult().data.feed,
      stop: () => watching.unsubscribe(),
    };
  },

  async urql() {
    const { client } = await import("./built/urql.js");
    let result, arrived;
    const next = () => new Promise((resolve) => (arrived = resolve));
    const first = next();
    const { unsubscribe } = pipe(
      client.query(FEED, {}),
      subscribe((latest) => {
        assert.equal(latest.error, undefined);
        result = latest;
        if (!latest.stale) arrived();
      }),
    );
    await first;
    return {
      async mutate(mutation, variables) {
        const again = next(); // the cacheExchange reads the feed again by itself
        const { data, error } = await client.mutation(mutation, variables);
        assert.equal(error, undefined);
        await again;
        return data;
      },
      feed: () => result.data.feed,
      stop: unsubscribe,
    };
  },

  async Relay() {
    await mkdir("relay/__generated__", { recursive: true });
    await copyFile("schema.graphqls", "relay/schema.graphql");
    await writeFile("relay/Counts.js", [FEED, ...Object.values(mutations)].map((document) => `graphql\`${document}\`;\n`).join(""));
    await promisify(execFile)("node_modules/.bin/relay-compiler", ["relay.config.json"]);
    const compiled = async (document) => (await import(`./relay/__generated__/${/ (\w+)/.exec(document)[1]}.graphql.js`)).default;

    const { environment } = await import("./built/relay.js");
    const query = await compiled(FEED);
    const read = () => relay.fetchQuery(environment, query, {}, { fetchPolicy: "network-only" }).toPromise();
    const operation = relay.createOperationDescriptor(relay.getRequest(query), {});
    const retained = environment.retain(operation);
    await read();
    return {
      async mutate(document, variables) {
        const mutation = await compiled(document);
        const data = await new Promise((resolve, reject) =>
          relay.commitMutation(environment, { mutation, variables, onError: reject, onCompleted: (data, errors) => (errors ? reject(errors) : resolve(data)) }),
        );
        await read();
        return data;
      },
      feed: () => environment.lookup(operation.fragment).data.feed,
      stop: () => retained.dispose(),
    };
  },
};

/** requests sends each request to the next of some instances. */
function requests(to) {
  let n = 0;
  return (url, init) => original(String(url).replace(instances[0], to[n++ % to.length]), init);
}

describe("counts in a list that is read again", async () => {
  after(() => (globalThis.fetch = original));
  let n = 0;
  for (const [name, connect] of Object.entries(clients)) {
    for (const [where, to] of [
      ["through one instance", instances.slice(0, 1)],
      ["with Byline-Session, through another", instances],
    ]) {
      const title = `one ${n++}`;
      test(`${name}, ${where}`, { timeout: 60_000 }, async () => {
        globalThis.fetch = requests(to);
        const client = await connect();
        const shown = () => {
          const { id, likeCount, commentCount, viewerHasLiked } = client.feed().edges.find(({ node }) => node.title === title).node;
          return { id, shows: `${likeCount} ${viewerHasLiked} ${commentCount}` };
        };
        try {
          const { id, shows } = shown();
          assert.equal(shows, "0 false 0");
          await client.mutate(mutations.like, { id });
          assert.equal(shown().shows, "1 true 0");
          const { createComment } = await client.mutate(mutations.comment, { id });
          assert.equal(shown().shows, "1 true 1");
          await client.mutate(mutations.unlike, { id });
          assert.equal(shown().shows, "0 false 1");
          await client.mutate(mutations.uncomment, { id: createComment.comment.id });
          assert.equal(shown().shows, "0 false 0");
          await client.mutate(mutations.like, { id });
          assert.equal(shown().shows, "1 true 0");
        } finally {
          client.stop();
        }
      });
    }
  }
});
