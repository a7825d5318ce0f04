import { signedIn } from "./session";

/** The variable $signedIn of fragments: without viewerHasLiked, a CDN may cache what anonymous readers get. */
export default { get: () => signedIn };
