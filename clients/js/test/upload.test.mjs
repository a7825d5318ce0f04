import assert from "node:assert/strict";
import { test } from "node:test";
import { upload, UploadError } from "byline-client";

const file = new Blob(["12345678"], { type: "image/png" });
const signed = { id: "u.1.png", url: "/uploads/u.1.png?signature=s", method: "PUT", headers: [{ name: "X", value: "1" }] };

/** connect answers createUpload with an upload, and its request with what answer does; it returns both, as they are. */
function connect(t, { created = signed, answer = (request) => request.onload() } = {}) {
  const seen = { operations: [], requests: [] };
  const original = globalThis.XMLHttpRequest;
  t.after(() => (globalThis.XMLHttpRequest = original));
  globalThis.XMLHttpRequest = class {
    status = 201;
    upload = {};
    headers = {};

    constructor() {
      seen.requests.push(this);
    }

    open(method, url) {
      Object.assign(this, { method, url });
    }

    setRequestHeader(name, value) {
      this.headers[name] = value;
    }

    send(body) {
      this.body = body;
      setImmediate(() => answer(this));
    }

    abort() {
      this.onabort();
    }
  };
  const execute = async (operation, init) => {
    seen.operations.push({ ...operation, ...init });
    return created.errors ? created : { data: { createUpload: { upload: created } } };
  };
  return { ...seen, byline: { url: "https://gateway.example/graphql", execute } };
}

for (const [name, url, want] of [
  ["a path of the gateway", signed.url, "https://gateway.example/uploads/u.1.png?signature=s"],
  ["another host", "https://store.example/u.1.png?sig=s", "https://store.example/u.1.png?sig=s"],
]) {
  test(`upload: the file goes to ${name}, with the headers it was given`, async (t) => {
    const { byline, operations, requests } = connect(t, { created: { ...signed, url } });
    assert.deepEqual(await upload(byline, file), { id: "u.1.png", path: "/files/u.1.png" });
    assert.deepEqual(operations[0].variables, { input: { contentType: "image/png", size: 8 } });
    const [{ method, url: address, headers, body }] = requests;
    assert.deepEqual({ method, address, headers, body }, { method: "PUT", address: want, headers: { X: "1" }, body: file });
  });
}

test("upload: progress is a part of the file", async (t) => {
  const parts = [];
  const answer = (request) => {
    for (const loaded of [0, 2, 8]) request.upload.onprogress({ loaded });
    request.onload();
  };
  await upload(connect(t, { answer }).byline, file, { onProgress: (part) => parts.push(part) });
  assert.deepEqual(parts, [0, 0.25, 1]);
});

test("upload: a refusal has the gateway's errors, and sends nothing", async (t) => {
  const errors = [{ message: "at most 10 MB", extensions: { code: "BAD_USER_INPUT", field: "size" } }];
  const { byline, requests } = connect(t, { created: { errors } });
  await assert.rejects(upload(byline, file), (error) => {
    assert(error instanceof UploadError);
    assert.equal(error.message, "at most 10 MB");
    assert.deepEqual(error.errors, errors);
    return true;
  });
  assert.equal(requests.length, 0);
});

test("upload: it rejects with the signal's reason, whenever that is", async (t) => {
  const reason = new Error("enough");
  const controller = new AbortController();
  const { byline, operations, requests } = connect(t, { answer: () => controller.abort(reason) });
  await assert.rejects(upload(byline, file, { signal: controller.signal }), reason);
  await assert.rejects(upload(byline, file, { signal: controller.signal }), reason); // before it is sent
  assert.equal(operations[0].signal, controller.signal);
  assert.equal(requests.length, 1);
});

for (const [name, answer, want] of [
  ["a status", (request) => { request.status = 403; request.onload(); }, { name: "Error", message: /uploads\/u\.1\.png: 403$/ }],
  ["no response", (request) => request.onerror(), { name: "TypeError", message: /no response$/ }],
]) {
  test(`upload: ${name} is an error, without the signature`, async (t) => {
    await assert.rejects(upload(connect(t, { answer }).byline, file), want);
  });
}
