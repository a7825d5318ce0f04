import assert from "node:assert/strict";
import { test } from "node:test";
import { createByline } from "byline-client";

/** serve accepts WebSockets with a token that begins with "valid", and returns the tokens of all and the open sockets. */
function serve(t) {
  const gateway = { tokens: [], open: [] };
  const original = globalThis.WebSocket;
  t.after(() => (globalThis.WebSocket = original));
  globalThis.WebSocket = class {
    static OPEN = 1;
    static CLOSING = 2;
    readyState = 1;

    constructor() {
      setImmediate(() => this.onopen());
    }

    close(code, reason = "") {
      this.readyState = 3;
      setImmediate(() => this.onclose({ code, reason, wasClean: true }));
    }

    send(message) {
      const { type, payload } = JSON.parse(message);
      if (type !== "connection_init") return;
      gateway.tokens.push(payload.Authorization.slice("Bearer ".length));
      if (!gateway.tokens.at(-1).startsWith("valid")) return this.close(4403, "the bearer token is not valid");
      gateway.open.push(this);
      setImmediate(() => this.onmessage({ data: '{"type":"connection_ack"}' }));
    }
  };
  return gateway;
}

/** connect subscribes with the options, and returns what onConnection was called with, and a promise of the error. */
function connect(t, options) {
  const connections = [];
  const byline = createByline({
    url: "http://gateway/graphql",
    pause: () => new Promise(setImmediate),
    onConnection: (connected) => connections.push(connected),
    ...options,
  });
  const error = new Promise((resolve) => {
    t.after(byline.socket.subscribe({ query: "subscription { x }" }, { next() {}, error: resolve, complete() {} }));
  });
  return { connections, error };
}

/** until waits for the condition, or for the end of the test. */
const until = async (t, condition) => {
  while (!condition() && !t.signal.aborted) await new Promise(setImmediate);
};

const unauthenticated = [{ message: "the bearer token is not valid", extensions: { code: "UNAUTHENTICATED" } }];

test("without refresh, a refused token ends the subscription", { timeout: 5000 }, async (t) => {
  const { tokens } = serve(t);
  const { connections, error } = connect(t, { token: () => "old" });
  assert.deepEqual(await error, unauthenticated);
  assert.deepEqual(tokens, ["old"]);
  assert.deepEqual(connections, []);
});

test("a new token that is refused, too, ends the subscription", { timeout: 5000 }, async (t) => {
  const { tokens } = serve(t);
  let n = 0;
  const { error } = connect(t, { token: () => `old ${n}`, refresh: async () => n++ });
  assert.deepEqual(await error, unauthenticated);
  assert.deepEqual(tokens, ["old 0", "old 1"]);
});

test("a refresh that keeps a refused token ends the subscription", { timeout: 5000 }, async (t) => {
  const { tokens } = serve(t);
  const { error } = connect(t, { token: () => "old", refresh: async () => {} });
  assert.deepEqual(await error, unauthenticated);
  assert.deepEqual(tokens, ["old", "old"]);
});

test("a token that expires is replaced each time", { timeout: 5000 }, async (t) => {
  const { tokens, open } = serve(t);
  let n = 0;
  const { connections } = connect(t, { token: () => `valid ${n}`, refresh: async () => n++ });
  for (const after of [1, 2, 3]) {
    await until(t, () => connections.length === after);
    open.at(-1).close(4403, "the bearer token has expired");
  }
  await until(t, () => connections.length === 4);
  assert.deepEqual(connections, [true, true, true, true]);
  assert.deepEqual(tokens, ["valid 0", "valid 1", "valid 2", "valid 3"]);
});

test("without refresh, a token that the page has replaced is used", { timeout: 5000 }, async (t) => {
  const { tokens, open } = serve(t);
  let token = "valid";
  const { connections, error } = connect(t, { token: () => token });
  await until(t, () => connections.length === 1);
  token = "new";
  open[0].close(4403, "the bearer token has expired");
  assert.deepEqual(await error, unauthenticated);
  assert.deepEqual(tokens, ["valid", "new"]);
  assert.deepEqual(connections, [true]);
});
