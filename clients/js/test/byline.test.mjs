import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { createByline, prepend, retryDelay } from "byline-client";

for (const [name, extensions, attempt, ms] of [
  ["unavailable", { code: "UNAVAILABLE" }, 0, 500],
  ["unavailable, the fourth time", { code: "UNAVAILABLE" }, 3, 4000],
  ["unavailable, for long", { code: "UNAVAILABLE" }, 20, 8000],
  ["throttled, with a time", { code: "THROTTLED", retryAfterMs: 12_345 }, 5, 12_345],
  ["throttled, with a short time, again", { code: "THROTTLED", retryAfterMs: 100 }, 1, 1000],
  ["written, but its response did not fit", { code: "UNAVAILABLE", id: "x" }, 0, undefined],
  ["invalid", { code: "BAD_USER_INPUT" }, 0, undefined],
  ["no extensions", undefined, 0, undefined],
]) {
  test(`retryDelay: ${name}`, () => assert.equal(retryDelay(extensions, attempt, 0.5), ms));
}

test("prepend: an item that the list has moves to its top", () => {
  assert.deepEqual(prepend([{ id: "a" }, { id: "b" }], { id: "b" }), [{ id: "b" }, { id: "a" }]);
});

/** serve answers requests with the session "s1" if their token is valid, at once or after hold, and returns their headers. */
function serve(t) {
  const requests = [];
  t.mock.method(globalThis, "fetch", async (_, { headers, hold }) => {
    requests.push(Object.fromEntries(headers));
    const refused = headers.get("Authorization") !== "Bearer valid";
    await hold;
    const body = refused ? { errors: [{ message: "x" }] } : { data: {} };
    return Response.json(body, { status: refused ? 401 : 200, headers: refused ? {} : { "Byline-Session": "s1" } });
  });
  return requests;
}

test("the session of a response is sent with the next request", async (t) => {
  const requests = serve(t);
  const byline = createByline({ url: "/graphql", token: () => "valid", headers: () => ({ "Byline-Cost": "summary" }) });
  await byline.execute({ query: "{ viewer { id } }" });
  await byline.execute({ query: "{ viewer { id } }" });
  assert.deepEqual(requests.map((headers) => headers["byline-session"]), [undefined, "s1"]);
  assert.equal(requests[0]["byline-cost"], "summary");
});

test("a session is not kept for an anonymous viewer, such as after signing out", async (t) => {
  serve(t);
  const storage = { getItem: () => null, setItem: mock.fn() };
  let token = "valid";
  const byline = createByline({ url: "/graphql", token: () => token, storage });
  const response = byline.execute({ query: "{ viewer { id } }" });
  token = null;
  await response;
  assert.equal(storage.setItem.mock.callCount(), 0);
});

test("a late refusal of a token that has been replaced does not replace it again", async (t) => {
  serve(t);
  let token = "old";
  const refresh = t.mock.fn(async () => (token = "valid"));
  const byline = createByline({ url: "/graphql", token: () => token, refresh });
  const first = byline.execute({ query: "{ viewer { id } }" });
  const late = byline.fetch("/graphql", { hold: first });
  assert.equal((await late).status, 200);
  assert.equal(refresh.mock.callCount(), 1);
});

test("without refresh, a refused token is an error after one request", async (t) => {
  const requests = serve(t);
  const { errors } = await createByline({ url: "/graphql", token: () => "old" }).execute({ query: "{ viewer { id } }" });
  assert.equal(errors.length, 1);
  assert.equal(requests.length, 1);
});

for (const [name, response, want] of [
  ["another server", new Response("404 page not found", { status: 404 }), "404, text/plain"],
  ["a page", new Response("<!doctype html>", { headers: { "Content-Type": "text/html; charset=utf-8" } }), "200, text/html"],
  ["no body", new Response(null, { status: 204 }), "204, no content type"],
  ["other JSON", Response.json({ error: "no route" }, { status: 404 }), "404, application/json"],
  ["null", Response.json(null), "200, application/json"],
]) {
  test(`execute: ${name} is not a GraphQL response`, async (t) => {
    t.mock.method(globalThis, "fetch", async () => response);
    await assert.rejects(createByline({ url: "/graphql" }).execute({ query: "{ viewer { id } }" }), {
      message: `POST /graphql: ${want}: not a GraphQL response; check url and proxy`,
    });
  });
}
