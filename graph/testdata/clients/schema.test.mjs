// The tools that single-page applications are built with, on the schema.graphqls in
// the working directory. They write their output there, too.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";

import { buildSchema, findBreakingChanges, getNamedType, isLeafType, isRequiredArgument } from "graphql";

/** tool runs what a package brings. If it fails, what it printed is in the error. */
async function tool(name, ...args) {
  try {
    await promisify(execFile)(`node_modules/.bin/${name}`, args);
  } catch (error) {
    throw new Error(`${error.message}\n${error.stdout}${error.stderr}`);
  }
}

test("eslint", () => tool("eslint", "--max-warnings=0", "schema.graphqls"));

// What breaks clients of baseline.graphqls, the schema of the last release. A release replaces that file.
test("breaking changes", async () => {
  const [before, now] = await Promise.all(["baseline.graphqls", "schema.graphqls"].map((file) => readFile(file, "utf8")));
  const mutations = "createUser updateUser deleteUser createPost updatePost deletePost createComment updateComment deleteComment likePost unlikePost";
  assert.deepEqual(
    findBreakingChanges(buildSchema(before), buildSchema(now)).map(({ description }) => description).sort(),
    mutations.split(" ").map((name) => {
      const payload = `${name[0].toUpperCase()}${name.slice(1)}Payload`;
      return `Mutation.${name} changed type from ${payload}! to ${payload}.`;
    }).sort(),
  );
});

test("relay-compiler", async () => {
  const schema = await readFile("schema.graphqls", "utf8");
  const modules = relayModules(buildSchema(schema));
  await mkdir("relay/__generated__", { recursive: true });
  await writeFile("relay/schema.graphql", schema); // the name that Relay takes
  for (const [name, documents] of modules) {
    await writeFile(`relay/${name}.js`, documents.map((document) => `graphql\`${document}\`;\n`).join(""));
  }
  await tool("relay-compiler", "relay.config.json");

  const made = new Set(await readdir("relay/__generated__"));
  const wanted = [...modules.values()].flat().flatMap((document) =>
    [...document.matchAll(/(?:fragment|query|mutation|subscription|queryName:) "?(\w+)/g)].map((match) => `${match[1]}.graphql.js`),
  );
  assert.ok(wanted.length > 40, `only ${wanted.length} documents`);
  assert.deepEqual(wanted.filter((file) => !made.has(file)), []);
});

/**
 * relayModules returns the documents of an application that uses all there is in a
 * schema, by the module they are in, after which Relay wants them named: for each type
 * a fragment with all its fields, for each connection a fragment that pages, and for
 * each other root field an operation.
 */
function relayModules(schema) {
  const modules = new Map();
  const add = (module, document) => modules.set(module, [...(modules.get(module) ?? []), document]);
  const capital = (name) => name[0].toUpperCase() + name.slice(1);
  const isConnection = (type) => type.name.endsWith("Connection");
  const select = (field, args = "") => {
    const type = getNamedType(field.type);
    if (type.name.endsWith("Edge")) {
      return `${field.name} @prependEdge(connections: $connections) { cursor node { ...${getNamedType(type.getFields().node.type)}_all } }`;
    }
    return isLeafType(type) ? field.name + args : `${field.name}${args} { ...${type.name}_all }`;
  };

  for (const type of Object.values(schema.getTypeMap())) {
    if (!type.getFields || type.name.startsWith("__") || /(Connection|Edge|PageInfo|Input)$/.test(type.name)) continue;
    const plain = [];
    for (const field of Object.values(type.getFields())) {
      const connection = getNamedType(field.type);
      if (!isConnection(connection)) {
        plain.push(field);
        continue;
      }
      const node = getNamedType(getNamedType(connection.getFields().edges.type).getFields().node.type);
      const required = field.args.filter(isRequiredArgument);
      const list = (text) => required.map((arg) => `, ${text(arg)}`).join("");
      add(type.name, `fragment ${type.name}_${field.name} on ${type.name}
        @refetchable(queryName: "${type.name}${capital(field.name)}Query")
        @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }${list((arg) => `${arg.name}: { type: "${arg.type}" }`)}) {
          ${field.name}(first: $first, after: $after${list((arg) => `${arg.name}: $${arg.name}`)}) @connection(key: "${type.name}_${field.name}") {
            edges { cursor node { ...${node.name}_all } }
            pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
          }
        }`);
    }
    const operation = { Query: "query", Mutation: "mutation", Subscription: "subscription" }[type.name];
    if (!operation) {
      const edges = plain.some((field) => getNamedType(field.type).name.endsWith("Edge"));
      const connections = edges ? "@argumentDefinitions(connections: { type: \"[ID!]!\", defaultValue: [] })" : "";
      add(type.name, `fragment ${type.name}_all on ${type.name} ${connections} { ${plain.map((field) => select(field)).join(" ")} }`);
      continue;
    }
    for (const field of plain) {
      const list = (text) => (field.args.length ? `(${field.args.map(text).join(", ")})` : "");
      add(capital(field.name), `${operation} ${capital(field.name)}${type.name}${list((arg) => `$${arg.name}: ${arg.type}`)} {
        ${select(field, list((arg) => `${arg.name}: $${arg.name}`))}
      }`);
    }
  }
  return modules;
}
