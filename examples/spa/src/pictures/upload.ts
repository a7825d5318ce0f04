import { useSyncExternalStore } from "react";
import { upload, type Byline, type Response } from "byline-client";
import { graphql } from "react-relay/hooks";
import { getRequest } from "relay-runtime";
import { byline } from "../network/byline";
import { GatewayError, PictureError, SessionEndedError } from "../network/errors";
import { execute } from "../network/execute";
import { retrying } from "../network/retry";
import { showAt } from "./address";

const mutation = graphql`
  mutation uploadMutation($input: CreateUploadInput!) {
    createUpload(input: $input) {
      upload {
        id
        url
        method
        headers {
          name
          value
        }
      }
    }
  }
`;

interface Options {
  prepare: (file: File) => Promise<Blob>;
  signal: AbortSignal;
  onProgress: (part: number) => void;
}

/** Uploads a picture, once it is prepared, and returns its path. The page shows the file until readers see it. */
export async function uploadPicture(file: File, { prepare, signal, onProgress }: Options) {
  change(1);
  try {
    const picture = await prepare(file);
    signal.throwIfAborted();
    const { path } = await upload(gateway(signal), picture, { signal, onProgress });
    showAt(path, picture);
    return path;
  } catch (error) {
    if ([GatewayError, PictureError, SessionEndedError].some((type) => error instanceof type)) throw error;
    throw new PictureError("The picture was not uploaded. Try again.", { cause: error });
  } finally {
    change(-1);
  }
}

/** Sends the document of this application, which the gateway knows, instead of byline-client's; again if it must. */
const gateway = (signal: AbortSignal): Pick<Byline, "url" | "execute"> => ({
  url: byline.url,
  execute: ({ variables = {} }) => {
    const { params } = getRequest(mutation);
    return retrying(() => execute(params, variables, { post: true, signal }), signal) as Promise<Response<never>>;
  },
});

let uploads = 0;
const listeners = new Set<() => void>();

function change(by: number) {
  uploads += by;
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Whether an upload of this page has not ended yet. */
export const useUploading = () => useSyncExternalStore(subscribe, () => uploads > 0);
