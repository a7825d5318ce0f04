// Tests of the emulator with @azure/cosmos. ENDPOINT has several physical partitions per container; THROTTLED is
// a second endpoint, with very few request units per second.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BulkOperationType, ChangeFeedStartFrom, CosmosClient, PatchOperationType } from "@azure/cosmos";
import { CosmosClient as CosmosClient49 } from "azure-cosmos-4.9";

const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const connect = (endpoint, options) => new CosmosClient({ endpoint, key, ...options });
const client = connect(process.env.ENDPOINT);
const client49 = new CosmosClient49({ endpoint: process.env.ENDPOINT, key });
const code = (wanted) => (error) => (assert.equal(error.code, wanted, error.stack), true);
let database, container;

before(async () => {
  ({ database } = await client.databases.createIfNotExists({ id: "js" }));
  ({ container } = await database.containers.createIfNotExists({
    id: "items",
    partitionKey: { paths: ["/pk"] },
    indexingPolicy: {
      compositeIndexes: [[{ path: "/kind", order: "ascending" }, { path: "/n", order: "descending" }]],
    },
  }));
});

after(async () => {
  await database?.delete();
  client.dispose();
  client49.dispose();
});

test("create, read, replace, upsert, delete", async () => {
  const created = await container.items.create({ id: "1", pk: "crud", n: 1 });
  assert.equal(created.statusCode, 201);
  assert.ok(created.requestCharge > 0);
  const read = await container.item("1", "crud").read();
  assert.equal(read.resource.n, 1);
  assert.equal(read.etag, read.resource._etag);
  const replaced = await container.item("1", "crud").replace({ id: "1", pk: "crud", n: 2 });
  assert.deepEqual([replaced.statusCode, replaced.resource.n], [200, 2]);
  assert.equal((await container.items.upsert({ id: "1", pk: "crud", n: 3 })).statusCode, 200);
  assert.equal((await container.items.upsert({ id: "2", pk: "crud", n: 3 })).statusCode, 201);
  assert.equal((await container.item("1", "crud").delete()).statusCode, 204);
  const gone = await container.item("1", "crud").read();
  assert.deepEqual([gone.statusCode, gone.resource], [404, undefined]);
});

// As Microsoft's own tests of the SDK have it. The SDK sends ? as it is, and cuts off a last one.
test("ids: create, read, replace, patch, delete", async () => {
  const found = [201, 200, 200, 200, 204], refused = (code) => [201, code, code, code, code];
  for (const [id, wanted] of [
    ["Disallowed?Chars", found], ["?first", found], ["a??b=c&d=e;f", found], ["a?b c+d", found], ["a?b%'\"<>", found], ["a?鱀😀", found],
    ["This is a test", found], ["   Test", found], ["WithAllowedSpecial,=.:~+-@()^${}[]!_Chars", found], ["WithUnicode鱀😀", found],
    ["100%", found], ["50%-off", found], ["a+b&c'd\"e<f>`|", found], ["..a", found],
    ["Test ", refused(401)], ["a?b ", refused(401)], ["IdEndingWithPercentEncodedWhitespace%20", refused(401)],
    ["WithPercentEncodedSpecialChar%E9%B1%80", refused(401)], ["a?b%20", refused(401)], ["last?", refused(401)],
    ["With\tTab", refused(400)], ["a?b\n", refused(400)],
  ]) {
    const item = container.item(id, "ids");
    const status = (promise) => promise.then((r) => r.statusCode, (error) => error.code);
    const resource = { id, pk: "ids", n: 1 };
    const got = [await status(container.items.create(resource)), await status(item.read()), await status(item.replace(resource)),
      await status(item.patch([{ op: "incr", path: "/n", value: 1 }])), await status(item.delete())];
    assert.deepEqual(got, wanted, id);
  }
  for (const id of ["a/b", "a\\b", "a#b"]) {
    await assert.rejects(container.items.create({ id, pk: "ids" }), (error) => (assert.match(error.message, /illegal chars/), true));
  }
  const named = await client.databases.createIfNotExists({ id: "js 鱀 100%" });
  const { container: c } = await named.database.containers.createIfNotExists({ id: "c 鱀 50%-off", partitionKey: { paths: ["/pk"] } });
  await c.items.create({ id: "a?b", pk: "ids" });
  assert.equal((await c.item("a?b", "ids").read()).resource.id, "a?b");
  await named.database.delete();
});

test("reserved words are no names", async () => {
  await container.items.create({ id: "1", pk: "words", value: 1, order: 2, rank: 3, left: 4, a: { select: 5 } });
  const query = (text, options) => container.items.query(text, options).fetchAll();
  for (const options of [{}, { partitionKey: "words" }]) {
    for (const [text, word] of [
      ["SELECT c.value FROM c", "value"], ["SELECT c.order FROM c", "order"], ["SELECT c.id AS value FROM c", "value"],
      ["SELECT VALUE c.a.select FROM c", "select"], ["SELECT * FROM c WHERE c.group = 1", "group"], ["SELECT * FROM c ORDER BY c.Top", "Top"],
    ]) {
      await assert.rejects(query(text, options), (error) => {
        assert.equal(error.code, 400, text);
        assert.match(JSON.stringify(error.message) + JSON.stringify(error.body ?? ""), new RegExp(`SC1001.*incorrect syntax near '${word}'`), text);
        return true;
      });
    }
    await assert.rejects(query("SELECT * FROM c WHERE c.x = True", options), code(400));
  }
  const { resources } = await query({
    query: `SELECT c["value"], c["order"], c.rank, c.left, c.a["select"] AS chosen FROM c WHERE c["value"] = @value AND c.pk = 'words' ORDER BY c["order"]`,
    parameters: [{ name: "@value", value: 1 }],
  });
  assert.deepEqual(resources, [{ value: 1, order: 2, rank: 3, left: 4, chosen: 5 }]);
});

test("patch, with and without a condition", async () => {
  await container.items.create({ id: "1", pk: "patch", n: 1, list: [1], old: true });
  const { resource } = await container.item("1", "patch").patch([
    { op: PatchOperationType.incr, path: "/n", value: 4 },
    { op: PatchOperationType.add, path: "/list/-", value: 2 },
    { op: PatchOperationType.set, path: "/name", value: "é" },
    { op: PatchOperationType.remove, path: "/old" },
  ]);
  assert.deepEqual([resource.n, resource.list, resource.name, resource.old], [5, [1, 2], "é", undefined]);
  const guarded = { condition: "from c where c.n = 1", operations: [{ op: "set", path: "/n", value: 0 }] };
  await assert.rejects(container.item("1", "patch").patch(guarded), code(412));
  await assert.rejects(container.item("1", "patch").patch([{ op: "remove", path: "/missing" }]), code(400));
});

test("404, 409 and 412", async () => {
  const { etag } = await container.items.create({ id: "1", pk: "errors" });
  await assert.rejects(container.items.create({ id: "1", pk: "errors" }), code(409));
  await assert.rejects(container.item("none", "errors").delete(), code(404));
  const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
  await container.item("1", "errors").replace({ id: "1", pk: "errors", n: 1 }, ifMatch(etag));
  await assert.rejects(container.item("1", "errors").replace({ id: "1", pk: "errors", n: 2 }, ifMatch(etag)), code(412));
  const { etag: now } = await container.item("1", "errors").read();
  const same = await container.item("1", "errors").read({ accessCondition: { type: "IfNoneMatch", condition: now } });
  assert.equal(same.statusCode, 304);
});

test("atomic batch", async () => {
  await container.items.create({ id: "counter", pk: "batch", n: 0 });
  const add = (id) => [
    { operationType: BulkOperationType.Create, resourceBody: { id, pk: "batch" } },
    { operationType: BulkOperationType.Patch, id: "counter", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
  ];
  const done = await container.items.batch(add("a"), "batch");
  assert.deepEqual([done.code, done.result.map((r) => r.statusCode)], [200, [201, 200]]);
  const failed = await container.items.batch(add("a"), "batch");
  assert.deepEqual([failed.code, failed.result.map((r) => r.statusCode)], [207, [409, 424]]);
  assert.equal((await container.item("counter", "batch").read()).resource.n, 1);
});

test("bulk, over partitions", async () => {
  const create = (n) => ({ operationType: BulkOperationType.Create, resourceBody: { id: `${n}`, pk: `bulk${n % 7}`, n } });
  const created = await container.items.bulk(Array.from({ length: 90 }, (_, n) => create(n)));
  assert.deepEqual(created.map((r) => r.statusCode), Array(90).fill(201));
  assert.deepEqual(created.map((r) => r.resourceBody.n), Array.from({ length: 90 }, (_, n) => n));
  const mixed = await container.items.bulk([
    create(3), // exists already
    { operationType: BulkOperationType.Read, id: "4", partitionKey: "bulk4" },
    { operationType: BulkOperationType.Patch, id: "5", partitionKey: "bulk5", resourceBody: { operations: [{ op: "incr", path: "/n", value: 10 }] } },
    { operationType: BulkOperationType.Replace, id: "6", partitionKey: "bulk6", ifMatch: '"stale"', resourceBody: { id: "6", pk: "bulk6" } },
    { operationType: BulkOperationType.Delete, id: "7", partitionKey: "bulk0" },
    { operationType: BulkOperationType.Delete, id: "7", partitionKey: "bulk0" },
    { operationType: BulkOperationType.Upsert, resourceBody: { id: "100", pk: "bulk3" } },
  ]);
  assert.deepEqual(mixed.map((r) => r.statusCode), [409, 200, 200, 412, 204, 404, 201]);
  assert.deepEqual([mixed[1].resourceBody.n, mixed[2].resourceBody.n], [4, 15]);
  const stopped = await container.items.bulk([create(200), create(200), create(207)].map((o) => ({ ...o, partitionKey: "bulk4" })), { continueOnError: false });
  assert.deepEqual(stopped.map((r) => r.statusCode), [201, 409, 424]);
});

test("executeBulkOperations, more than fit in one request", async () => {
  const operations = Array.from({ length: 500 }, (_, n) =>
    ({ operationType: BulkOperationType.Upsert, partitionKey: `many${n % 31}`, resourceBody: { id: `${n}`, pk: `many${n % 31}`, n } }));
  operations.push({ operationType: BulkOperationType.Create, partitionKey: "many0", resourceBody: { id: "elsewhere", pk: "many1" } });
  const results = await container.items.executeBulkOperations(operations, { contentResponseOnWriteEnabled: false });
  assert.equal(results.length, 501);
  assert.ok(results.slice(0, 500).every((r) => r.response?.statusCode === 201 && r.response.requestCharge > 0 && !r.response.resourceBody));
  assert.deepEqual([results[500].error.code, results[500].error.substatus], [400, 1001]);
  const { resources } = await container.items.query("SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.pk, 'many')").fetchAll();
  assert.deepEqual(resources, [500]);
});

test("query with paging in a partition", async () => {
  for (let n = 0; n < 25; n++) await container.items.create({ id: `${n}`, pk: "query", kind: n % 2 ? "odd" : "even", n });
  const query = {
    query: "SELECT VALUE c.n FROM c WHERE c.kind = @kind ORDER BY c.kind DESC, c.n ASC",
    parameters: [{ name: "@kind", value: "even" }],
  };
  const seen = [];
  let token, pages = 0;
  do { // each page from a new iterator, like a web server
    const page = await container.items.query(query, { partitionKey: "query", maxItemCount: 4, continuationToken: token }).fetchNext();
    seen.push(...page.resources);
    token = page.continuationToken;
    pages++;
  } while (token);
  assert.deepEqual(seen, Array.from({ length: 13 }, (_, n) => 2 * n));
  assert.equal(pages, 4);
  const { resources } = await container.items.query("SELECT c.kind, COUNT(1) AS k, AVG(c.n) AS mean FROM c GROUP BY c.kind", { partitionKey: "query" }).fetchAll();
  assert.deepEqual(resources.sort((a, b) => a.k - b.k), [{ kind: "odd", k: 12, mean: 12 }, { kind: "even", k: 13, mean: 12 }]);
  await assert.rejects(container.items.query("SELECT FROM c", { partitionKey: "query" }).fetchAll(), code(400));
});

test("query over partitions", async () => {
  for (let n = 0; n < 60; n++) await container.items.create({ id: `${n}`, pk: `cross${n % 13}`, kind: "cross", n, group: `g${n % 3}` }); // strings: the SDK loses a distinct 0
  const all = async (text, options) => (await container.items.query(text, { maxItemCount: 7, ...options }).fetchAll()).resources;
  const numbers = (from, to) => Array.from({ length: to - from }, (_, n) => n + from);
  const where = "FROM c WHERE c.kind = 'cross'";
  const sorted = (list) => list.sort((a, b) => a - b);
  assert.deepEqual(sorted(await all(`SELECT VALUE c.n ${where}`)), numbers(0, 60));
  assert.deepEqual(await all(`SELECT VALUE c.n ${where} ORDER BY c.n`), numbers(0, 60));
  assert.deepEqual(await all(`SELECT VALUE c.n ${where} ORDER BY c.n DESC`), numbers(0, 60).reverse());
  assert.deepEqual((await all(`SELECT * ${where} AND c.n < 9 ORDER BY c.kind, c.n DESC`)).map((i) => i.n), numbers(0, 9).reverse());
  assert.deepEqual((await all(`SELECT c.n, c["group"] AS g ${where} ORDER BY c.n OFFSET 5 LIMIT 4`)), numbers(5, 9).map((n) => ({ n, g: `g${n % 3}` })));
  assert.deepEqual(await all(`SELECT TOP 11 VALUE c.n ${where} ORDER BY c.n`), numbers(0, 11));
  assert.equal((await all(`SELECT TOP 11 VALUE c.n ${where}`)).length, 11);
  assert.deepEqual((await all(`SELECT DISTINCT VALUE c["group"] ${where}`)).sort(), ["g0", "g1", "g2"]);
  assert.deepEqual(await all(`SELECT VALUE COUNT(1) ${where}`), [60]);
  assert.deepEqual(await all(`SELECT VALUE SUM(c.n) ${where}`), [1770]);
  assert.deepEqual(await all(`SELECT VALUE AVG(c.n) ${where}`), [29.5]);
  assert.deepEqual(await all(`SELECT VALUE MIN(c.n) ${where}`), [0]);
  assert.deepEqual(await all(`SELECT VALUE MAX(c.n) ${where}`), [59]);
  const groups = await all(`SELECT VALUE COUNT(1) ${where} GROUP BY c["group"]`);
  assert.deepEqual(groups, [20, 20, 20]);
  assert.deepEqual(await all("SELECT VALUE c.n FROM c WHERE c.pk = 'cross1' ORDER BY c.n"), [1, 14, 27, 40, 53]);
});

// Version 4.9 first sends its own token to the service; both resume ORDER BY with a narrowed filter.
for (const [version, resuming] of [["4.9", client49], ["4.10", client]]) {
  test(`query over partitions, each page from a new iterator, version ${version}`, async () => {
    const { container: c } = await resuming.database("js").containers.createIfNotExists({ id: `paged${version}`, partitionKey: { paths: ["/pk"] } });
    const long = "x".repeat(700); // a token of two such values would exceed the limit that the SDK sends
    for (let n = 0; n < 100; n++) { // the last 40 in one partition, which then fills several pages
      await c.items.create({ id: `${n}`, pk: `p${n < 60 ? n % 13 : 0}`, n, half: Math.floor(n / 2), s: `${100 + n}${long}` });
    }
    const paged = async (query) => {
      const seen = [];
      let token, page;
      do {
        page = await c.items.query(query, { maxItemCount: 7, continuationToken: token, enableQueryControl: true }).fetchNext();
        seen.push(...(page.resources ?? []));
        token = page.continuationToken;
      } while (token && page.hasMoreResults);
      return seen;
    };
    const numbers = Array.from({ length: 100 }, (_, n) => n);
    assert.deepEqual(await paged("SELECT VALUE c.n FROM c ORDER BY c.n"), numbers);
    assert.deepEqual(await paged("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), numbers.toReversed());
    assert.deepEqual(await paged("SELECT VALUE c.n FROM c ORDER BY c.s"), numbers);
    assert.deepEqual(await paged("SELECT VALUE c.n FROM c WHERE c.n < 40 ORDER BY c.n"), numbers.slice(0, 40));
    assert.deepEqual(await paged("SELECT VALUE c.half FROM c ORDER BY c.half"), numbers.map((n) => Math.floor(n / 2)));
    assert.deepEqual((await paged("SELECT VALUE c.n FROM c ORDER BY c.half")).sort((a, b) => a - b), numbers);
    assert.deepEqual(await paged("SELECT TOP 25 VALUE c.n FROM c ORDER BY c.n"), numbers.slice(0, 25));
    assert.deepEqual(await paged("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 22"), numbers.slice(5, 27));
    for (const [text, count] of [["SELECT TOP 25 VALUE c.n FROM c", 25], ["SELECT VALUE c.n FROM c OFFSET 5 LIMIT 22", 22], ["SELECT VALUE c.n FROM c", 100]]) {
      const rows = await paged(text);
      assert.deepEqual([rows.length, new Set(rows).size], [count, count], text);
    }
  });
}

test("aggregates without VALUE, over partitions", async () => {
  const { container: c } = await database.containers.createIfNotExists({ id: "aggregates", partitionKey: { paths: ["/pk"] } });
  for (let n = 0; n < 10; n++) await c.items.create({ id: `${n}`, pk: `p${n}`, n });
  const all = async (text) => (await c.items.query(text).fetchAll()).resources;
  assert.deepEqual(await all("SELECT COUNT(1) AS k, MIN(c.n) AS least, MAX(c.n) AS most, SUM(c.n) AS total, AVG(c.n) AS mean FROM c"),
    [{ k: 10, least: 0, most: 9, total: 45, mean: 4.5 }]);
  assert.deepEqual(await all("SELECT COUNT(1), MAX(c.n) AS most FROM c WHERE c.n < 5"), [{ $1: 5, most: 4 }]);
  await assert.rejects(all("SELECT SUM(c.n) / COUNT(1) AS mean FROM c"), /expression of aggregates is not supported over partitions/);
});

test("what is not supported is refused by name", async () => {
  const refused = (promise, name) => assert.rejects(promise, (error) => (assert.equal(error.code, 400, error.stack), assert.match(error.message, name), true));
  await refused(container.deleteAllItemsForPartitionKey("p"), /deletion of all items of a partition key/);
  const { storedProcedures, triggers, userDefinedFunctions } = container.scripts;
  await refused(storedProcedures.create({ id: "s", body: "function () {}" }), /Stored procedures/);
  await refused(container.scripts.storedProcedure("s").execute("p"), /Stored procedures/);
  await refused(triggers.create({ id: "t", body: "function () {}", triggerType: "Pre", triggerOperation: "All" }), /Triggers/);
  await refused(userDefinedFunctions.readAll().fetchAll(), /User-defined functions/);
  await refused(container.items.query("SELECT VALUE udf.f(c.n) FROM c", { partitionKey: "p" }).fetchAll(), /user-defined function udf\.f/);
  await refused(container.conflicts.readAll().fetchAll(), /Conflicts/);
  await refused(database.users.create({ id: "u" }), /Users/);
  await refused(database.user("u").permissions.readAll().fetchAll(), /Permissions/);
  await refused(container.items.getChangeFeedIterator({ changeFeedMode: "Full-Fidelity Feed" }).readNext(), /wire-format/);
  await refused(container.read({ populateQuotaInfo: true }), /populatequotainfo/);
  const computed = { id: "computed", partitionKey: { paths: ["/pk"] }, computedProperties: [{ name: "lower", query: "SELECT VALUE LOWER(c.s) FROM c" }] };
  await refused(database.containers.create(computed), /computedProperties/);
});

test("change feed iterator", async () => {
  const { container: feed } = await database.containers.create({ id: "feed", partitionKey: { paths: ["/pk"] } });
  for (let n = 0; n < 25; n++) await feed.items.create({ id: `${n}`, pk: `p${n % 4}`, n });
  await feed.item("3", "p3").patch([{ op: "incr", path: "/n", value: 100 }]);
  const drain = async (iterator) => {
    const items = [];
    while (iterator.hasMoreResults) {
      const page = await iterator.readNext();
      if (page.statusCode === 304) return { items, token: page.continuationToken };
      items.push(...page.result);
    }
  };
  const whole = await drain(feed.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 4 }));
  assert.equal(whole.items.length, 25);
  assert.equal(whole.items.find((i) => i.id === "3").n, 103);
  assert.equal(new Set(whole.items.map((i) => i.id)).size, 25);
  await feed.items.create({ id: "later", pk: "p1" });
  const rest = await drain(feed.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(whole.token) }));
  assert.deepEqual(rest.items.map((i) => i.id), ["later"]);
  const one = await drain(feed.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning("p2"), maxItemCount: 2 }));
  assert.deepEqual(one.items.map((i) => i.n), [2, 6, 10, 14, 18, 22]);
});

test("429 and the retries of the SDK", async () => {
  const impatient = connect(process.env.THROTTLED, { connectionPolicy: { retryOptions: { maxRetryAttemptCount: 0 } } });
  const patient = connect(process.env.THROTTLED, { connectionPolicy: { retryOptions: { maxRetryAttemptCount: 50, maxWaitTimeInSeconds: 60 } } });
  try {
    const { database: db } = await patient.databases.createIfNotExists({ id: "throttled" });
    const { container: c } = await db.containers.createIfNotExists({ id: "items", partitionKey: { paths: ["/pk"] } });
    let refused;
    for (let n = 0; n < 200 && !refused; n++) {
      await impatient.database("throttled").container("items").items.upsert({ id: `${n}`, pk: "p" }).catch((error) => { refused = error; });
    }
    assert.equal(refused?.code, 429);
    assert.ok(refused.retryAfterInMs > 0 || Number(refused.headers?.["x-ms-retry-after-ms"]) > 0, "without x-ms-retry-after-ms");
    for (let n = 0; n < 8; n++) await c.items.upsert({ id: `patient${n}`, pk: "p" });
  } finally {
    impatient.dispose();
    patient.dispose();
  }
});

// The orders of ORDER BY RANK, which the SDK computes from statistics and component queries, are those of BM25 and, for
// several scores, of reciprocal rank fusion.
test("full-text search ranks as BM25", async () => {
  const fullTextPaths = ["/t", "/u"].map((path) => ({ path, language: "en-US" }));
  const { container: texts } = await database.containers.create({
    id: "texts", partitionKey: { paths: ["/pk"] },
    fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths },
    indexingPolicy: { includedPaths: [{ path: "/*" }], fullTextIndexes: fullTextPaths.map(({ path }) => ({ path })) },
  });
  let state = 7;
  const random = (n) => (state = (state * 48271) % 2147483647) % n;
  const words = "red wine cat dog sun moon tree".split(" "); // that neither stem nor stop
  const text = () => Array.from({ length: 1 + random(30) }, () => words[Math.min(random(7), random(7))]);
  const docs = Array.from({ length: 70 }, (_, n) => ({ n, pk: `p${n % 3}`, t: text(), u: text() }));
  for (const d of docs) {
    await texts.items.create({ id: `${d.n}`, n: d.n, pk: d.pk, t: d.t.join(" "), u: d.u.join(" ") });
  }
  const occurrences = (list, phrase) => ` ${list.join("  ")} `.split(` ${phrase.replaceAll(" ", "  ")} `).length - 1;
  const bm25 = (property, terms) => {
    const mean = docs.reduce((sum, d) => sum + d[property].length, 0) / docs.length;
    const having = terms.map((term) => docs.filter((d) => occurrences(d[property], term) > 0).length);
    return (d) => terms.reduce((sum, term, i) => {
      const f = occurrences(d[property], term);
      return sum + Math.log(1 + (docs.length - having[i] + 0.5) / (having[i] + 0.5)) * f * 2.2 /
        (f + 1.2 * (0.25 + 0.75 * d[property].length / mean));
    }, 0);
  };
  const score = (property, terms) => `FullTextScore(c.${property}, ${terms.map((term) => `"${term}"`).join(", ")})`;
  const all = () => true, t = (...terms) => ["t", terms], u = (...terms) => ["u", terms];
  for (const { scores, weights, top, offset, limit, where, fits = all } of [
    { scores: [t("red")], top: 10 },
    { scores: [t("tree")], top: 70 },
    { scores: [t("moon", "tree")], top: 70 },
    { scores: [t("cat", "dog", "sun")], top: 25 },
    { scores: [t("red wine")], top: 70 },
    { scores: [t("red wine", "tree")], top: 70 },
    { scores: [u("sun")], offset: 5, limit: 20 },
    { scores: [u("wine", "dog cat")], offset: 0, limit: 70 },
    { scores: [t("cat", "dog")], top: 30, where: "c.n < 40", fits: (d) => d.n < 40 },
    { scores: [t("red")], top: 30, where: 'FullTextContains(c.u, "moon")', fits: (d) => d.u.includes("moon") },
    { scores: [t("sun")], top: 30, where: 'FullTextContainsAll(c.t, "sun", "red") AND c.n >= 9',
      fits: (d) => d.t.includes("sun") && d.t.includes("red") && d.n >= 9 },
    { scores: [t("sun")], top: 30, where: 'NOT FullTextContains(c.t, "red")', fits: (d) => !d.t.includes("red") },
    { scores: [t("red"), u("dog", "sun")], top: 40 },
    { scores: [t("red wine"), u("moon")], offset: 3, limit: 40 },
    { scores: [t("red"), u("dog")], weights: [2, 0.5], top: 40 },
    { scores: [t("red"), u("moon")], weights: [1, -1], top: 40 },
    { scores: [t("wine", "tree")], top: 20, where: 'c.pk = "p1"', fits: (d) => d.pk === "p1" },
  ]) {
    const ranks = scores.map(([property, terms]) => score(property, terms));
    const rank = scores.length === 1 ? ranks[0] : `RRF(${[...ranks, ...(weights ? [`[${weights.join(", ")}]`] : [])].join(", ")})`;
    const query = `SELECT ${top ? `TOP ${top} ` : ""}c.n FROM c${where ? ` WHERE ${where}` : ""} ORDER BY RANK ${rank}` +
      (limit ? ` OFFSET ${offset} LIMIT ${limit}` : "");
    const { resources } = await texts.items.query(query, { forceQueryPlan: true }).fetchAll();
    const found = docs.filter(fits), total = new Map(found.map((d) => [d.n, 0]));
    scores.forEach(([property, terms], at) => {
      const scoreOf = bm25(property, terms), sign = Math.sign(weights?.[at] ?? 1);
      let place = 0, before;
      for (const d of found.toSorted((a, b) => sign * (scoreOf(b) - scoreOf(a)))) {
        if (before === undefined || Math.abs(before - scoreOf(d)) > 1e-12) place++;
        before = scoreOf(d);
        const fused = Math.abs(weights?.[at] ?? 1) / (60 + place);
        total.set(d.n, total.get(d.n) + (scores.length === 1 ? before : fused));
      }
    });
    const wanted = [...total.values()].sort((a, b) => b - a).slice(offset ?? 0, (offset ?? 0) + (top ?? limit));
    assert.equal(resources.length, wanted.length, query);
    resources.forEach(({ n }, i) => assert.ok(Math.abs(total.get(n) - wanted[i]) < 1e-9, `${query}: place ${i} has ${n}`));
  }
});
