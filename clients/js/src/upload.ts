import type { Byline, ResponseError } from "./index.js";

export interface UploadOptions {
  /** Ends the upload, which rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Called with the part of the file that has been sent, from 0 to 1. */
  onProgress?: (part: number) => void;
}

export interface Uploaded {
  /** For the inputs that take an upload, such as `avatar`. */
  id: string;
  /** The picture's address on the gateway, also in Markdown. Readers see it once something of its owner uses it. */
  path: string;
}

/** The gateway has refused an upload. */
export class UploadError extends Error {
  override readonly name = "UploadError";
  readonly errors: readonly ResponseError[];

  constructor(errors: readonly ResponseError[]) {
    super(errors[0]?.message ?? "no upload");
    this.errors = errors;
  }
}

interface Created {
  createUpload?: {
    upload: { id: string; url: string; method: string; headers: { name: string; value: string }[] };
  } | null;
}

const query = `mutation CreateUpload($input: CreateUploadInput!) {
  createUpload(input: $input) { upload { id url method headers { name value } } }
}`;

/**
 * Uploads a picture of at most 10 MB: JPEG, PNG, WebP, GIF or AVIF. Rejects with an UploadError if the gateway refuses it,
 * with a TypeError if there is no response. It is not repeated; another call makes another upload.
 */
export async function upload(
  byline: Pick<Byline, "url" | "execute">,
  file: Blob,
  { signal, onProgress }: UploadOptions = {},
): Promise<Uploaded> {
  const input = { contentType: file.type, size: file.size };
  const { data, errors = [] } = await byline.execute<Created>({ query, variables: { input } }, signal && { signal });
  const created = data?.createUpload?.upload;
  if (!created) throw new UploadError(errors);
  signal?.throwIfAborted();
  const { id, method, headers } = created;
  const url = new URL(created.url, new URL(byline.url, globalThis.location?.href));
  await new Promise<void>((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not report progress
    request.open(method, url.href);
    for (const { name, value } of headers) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => onProgress?.(Math.min(loaded / file.size, 1));
    request.onload = () => {
      if (request.status < 300) resolve();
      else reject(new Error(`${method} ${url.origin}${url.pathname}: ${request.status}`)); // without the signature
    };
    request.onerror = () => reject(new TypeError(`${method} ${url.origin}${url.pathname}: no response`));
    request.onabort = () => reject(signal?.reason);
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
  return { id, path: `/files/${id}` };
}
