import assert from "node:assert/strict";
import { test } from "node:test";
import { createNetwork } from "byline-client/relay";

test("a refused subscription has no data, of which Relay makes an error with a source", () => {
  const errors = [{ message: "refused", extensions: { code: "UNAUTHENTICATED" } }];
  const sent = [];
  const socket = { subscribe: (operation, sink) => { sent.push(operation); sink.error(errors); return () => {}; } };
  const received = [];
  const request = { operationKind: "subscription", name: "S", text: "subscription S { x }", metadata: {} };
  createNetwork({ socket }).execute(request, { a: 1 }, {}).subscribe({ next: (response) => received.push(response) });
  assert.deepEqual(sent, [{ query: request.text, variables: { a: 1 } }]);
  assert.deepEqual(received, [{ data: null, errors }]);
});
