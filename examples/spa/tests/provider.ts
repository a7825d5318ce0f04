import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** An OpenID Connect provider that signs everyone in as one subject, with PKCE and refresh tokens. */
export class Provider {
  url = "";
  renews = true; // whether refresh tokens are valid
  readonly issued: string[] = []; // access tokens
  readonly #keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  readonly #challenges = new Map<string, string>(); // by code
  readonly #server = createServer((req, res) => void this.#respond(req, res));

  async start() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  stop = () => this.#server.close();

  async #respond(req: IncomingMessage, res: ServerResponse) {
    const { pathname, searchParams } = new URL(req.url ?? "", this.url);
    const json = (status: number, body: object) =>
      res
        .writeHead(status, { "Content-Type": "application/json", "Access-Control-Allow-Origin": "*" })
        .end(JSON.stringify(body));
    switch (pathname) {
      case "/.well-known/openid-configuration":
        return json(200, {
          issuer: this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          jwks_uri: `${this.url}/keys`,
          id_token_signing_alg_values_supported: ["ES256"],
        });
      case "/keys":
        return json(200, { keys: [{ ...this.#keys.publicKey.export({ format: "jwk" }), kid: "k", alg: "ES256" }] });
      case "/authorize": {
        const code = randomUUID();
        this.#challenges.set(code, searchParams.get("code_challenge") ?? "");
        const to = new URL(searchParams.get("redirect_uri") ?? "");
        to.search = new URLSearchParams({ code, state: searchParams.get("state") ?? "" }).toString();
        return res.writeHead(302, { Location: to.href }).end();
      }
      case "/token": {
        const form = new URLSearchParams(await text(req));
        return this.#accepts(form) ? json(200, this.#tokens()) : json(400, { error: "invalid_grant" });
      }
      default:
        return res.writeHead(404).end();
    }
  }

  #accepts(form: URLSearchParams) {
    if (form.get("grant_type") === "refresh_token") return this.renews;
    const hash = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    return this.#challenges.get(form.get("code") ?? "") === hash;
  }

  #tokens() {
    const access_token = this.#jwt("blog");
    this.issued.push(access_token);
    return { access_token, id_token: this.#jwt("spa"), refresh_token: "r", token_type: "Bearer", expires_in: 3600 };
  }

  #jwt(aud: string) {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.url, sub: "someone", aud, iat: now, exp: now + 3600, jti: randomUUID() };
    const signed = `${base64({ alg: "ES256", typ: "JWT", kid: "k" })}.${base64(claims)}`;
    const key = { key: this.#keys.privateKey, dsaEncoding: "ieee-p1363" } as const;
    return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
  }
}
