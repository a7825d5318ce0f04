import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

const root = join(import.meta.dirname, "..");

// The documents of the tests, beside those of the application.
const documents = {
  join: "mutation ($input: CreateUserInput!) { createUser(input: $input) { user { id } } }",
  updateUser: "mutation ($input: UpdateUserInput!) { updateUser(input: $input) { user { id } } }",
  publish: "mutation ($input: CreatePostInput!) { createPost(input: $input) { post { id slug } } }",
  upload:
    "mutation ($input: CreateUploadInput!) {" +
    " createUpload(input: $input) { upload { id url method headers { name value } } } }",
  comment: "mutation ($input: CreateCommentInput!) { createComment(input: $input) { comment { id } } }",
  follow: "mutation ($input: FollowUserInput!) { followUser(input: $input) { user { id } } }",
  unfollow: "mutation ($input: UnfollowUserInput!) { unfollowUser(input: $input) { user { id } } }",
  like: "mutation ($input: LikePostInput!) { likePost(input: $input) { post { id } } }",
  bookmark: "mutation ($input: BookmarkPostInput!) { bookmarkPost(input: $input) { post { id } } }",
  delete: "mutation ($input: DeletePostInput!) { deletePost(input: $input) { deletedPostId } }",
};

interface Upload {
  id: string;
  url: string;
  method: string;
  headers: { name: string; value: string }[];
}

/** Waits for a line of a process's output, and returns what its first group matches. */
async function line(output: Readable, pattern: RegExp) {
  for await (const text of createInterface(output)) {
    const match = pattern.exec(text);
    if (match) {
      output.resume();
      return match[1] ?? "";
    }
  }
  throw new Error(`the process has ended without a line like ${pattern.source}`);
}

/** A gateway with the demo blog, which can be killed and started again, and the server of the application before it. */
export class Gateway {
  url = "";
  #args: string[] = [];
  #address = "127.0.0.1:0";
  #gateway!: ChildProcess;
  #server!: ChildProcess;
  readonly #folder = mkdtempSync(join(tmpdir(), "byline-spa-"));
  readonly #manifest = join(this.#folder, "persisted.json");

  /** Starts a gateway with more arguments, and the server with more variables. */
  static async start(args: string[] = [], variables: Record<string, string> = {}) {
    const gateway = new Gateway();
    gateway.#args = args;
    const application = JSON.parse(readFileSync(join(root, "persisted.json"), "utf8")) as object;
    writeFileSync(gateway.#manifest, JSON.stringify({ ...application, ...documents }));
    await gateway.restart(/msg="(the demo blog is complete)"/);
    const env = { ...process.env, ...variables, BYLINE_URL: `http://${gateway.#address}` };
    const server = [join(root, "tools/serve.mjs"), "0"];
    gateway.#server = spawn(process.execPath, server, { env, stdio: ["ignore", "pipe", "inherit"] });
    gateway.url = await line(gateway.#server.stdout as Readable, /(http:\S+)/);
    return gateway;
  }

  /** The address of the gateway itself, without the server before it. */
  get own() {
    return `http://${this.#address}`;
  }

  async restart(ready = /msg=(listening)/) {
    const binary = process.env.BYLINE ?? "byline";
    const data = join(this.#folder, "data");
    const args = ["--listen", this.#address, "--data", data, "--trusted-documents", this.#manifest, ...this.#args];
    this.#gateway = spawn(binary, args, { stdio: ["ignore", "ignore", "pipe"] });
    const log = this.#gateway.stderr as Readable;
    this.#address = await line(log, /msg=listening url=http:\/\/([^/\s]+)/);
    if (ready.source !== "msg=(listening)") await line(log, ready);
  }

  async kill() {
    if (this.#gateway.signalCode) return;
    const exited = once(this.#gateway, "exit");
    this.#gateway.kill("SIGKILL");
    await exited;
  }

  async stop() {
    this.#server.kill();
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #execute<T>(user: string, documentId: keyof typeof documents, input: object): Promise<T> {
    const response = await fetch(`http://${this.#address}/graphql`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer demo:${user}` },
      body: JSON.stringify({ documentId, variables: { input } }),
    });
    const { data, errors } = (await response.json()) as { data: T; errors?: unknown };
    if (errors) throw new Error(JSON.stringify(errors));
    return data;
  }

  async publish(user: string, title: string, content = "A text.", tags: string[] = [], more: object = {}) {
    type Created = { createPost: { post: { id: string; slug: string } } };
    return (await this.#execute<Created>(user, "publish", { title, content, tags, ...more })).createPost.post;
  }

  /** Uploads a picture, and returns its id. */
  async upload(user: string, { mimeType, buffer }: { mimeType: string; buffer: Buffer }) {
    const { createUpload } = await this.#execute<{ createUpload: { upload: Upload } }>(user, "upload", {
      contentType: mimeType,
      size: buffer.length,
    });
    const { id, url, method, headers } = createUpload.upload;
    const response = await fetch(new URL(url, this.own), {
      method,
      headers: Object.fromEntries(headers.map(({ name, value }) => [name, value])),
      body: new Uint8Array(buffer),
    });
    if (!response.ok) throw new Error(`upload: status ${response.status}`);
    return id;
  }

  /** Creates a user, and returns their id. */
  async join(username: string) {
    type Created = { createUser: { user: { id: string } } };
    return (await this.#execute<Created>(username, "join", { username })).createUser.user.id;
  }

  updateUser = (user: string, changes: object) => this.#execute(user, "updateUser", changes);
  comment = (user: string, postId: string, content: string) => this.#execute(user, "comment", { postId, content });
  follow = (user: string, id: string) => this.#execute(user, "follow", { id });
  unfollow = (user: string, id: string) => this.#execute(user, "unfollow", { id });
  like = (user: string, postId: string) => this.#execute(user, "like", { postId });
  bookmark = (user: string, id: string) => this.#execute(user, "bookmark", { id });
  delete = (user: string, id: string) => this.#execute(user, "delete", { id });
}
