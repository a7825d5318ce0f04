import type { ResponseError } from "byline-client";

/** The gateway responded, with errors instead of data. */
export class GatewayError extends Error {
  readonly errors: readonly ResponseError[];

  constructor(errors: readonly ResponseError[]) {
    super(errors[0]?.message ?? "unknown error");
    this.name = "GatewayError";
    this.errors = errors;
  }

  get details() {
    return this.errors[0]?.extensions ?? {};
  }
}

/** There was no response, or one that is not the gateway's, such as a proxy's 502. */
export class UnreachableError extends TypeError {
  override readonly name = "UnreachableError";
}

/** A picture was not uploaded; the message says why. */
export class PictureError extends Error {
  override readonly name = "PictureError";
}

/** The provider gives no new token: the viewer has to sign in again. */
export class SessionEndedError extends Error {
  override readonly name = "SessionEndedError";
}

export const codeOf = (error: unknown) => (error instanceof GatewayError ? error.details.code : undefined);

/** The message for people, of an error that no retry has helped. */
export function messageOf(error: unknown): string {
  if (error instanceof SessionEndedError) return "Your session has ended. Sign in again; what you wrote is kept.";
  if (error instanceof PictureError) return error.message;
  if (!(error instanceof GatewayError)) return "Something went wrong in this page. Reload it and try again.";
  const { code, reason, retryAfterMs, requestId } = error.details;
  switch (code) {
    case "BAD_USER_INPUT":
      return error.errors.map(labelled).join(" ");
    case "UNAUTHENTICATED":
      return "Sign in to do this.";
    case "FORBIDDEN":
      return "You are not allowed to do this.";
    case "NOT_FOUND":
      return "It no longer exists.";
    case "CONFLICT":
      if (reason === "TAKEN") return "This username is taken.";
      if (retryAfterMs) return `${sentence(error.message)} Try again in ${duration(retryAfterMs)}.`;
      if (reason === "OUTDATED" || reason === "CONCURRENT") return "Someone changed this at the same time. Try again.";
      return sentence(error.message);
    case "THROTTLED":
      return `That was too often. Try again in ${duration(retryAfterMs ?? 1000)}.`;
    case "LIMIT_REACHED":
      return error.errors.map(labelled).join(" ");
    case "UNAVAILABLE":
      return "The server is busy. Try again in a moment.";
    case "QUERY_TOO_EXPENSIVE":
      return "This is too much for one request. Show less of it at once.";
    case "PERSISTED_QUERY_NOT_FOUND":
    case "GRAPHQL_VALIDATION_FAILED":
    case "GRAPHQL_PARSE_FAILED":
      return "This page and the server have different versions. Reload the page; what you wrote is kept.";
    default:
      return `The server made a mistake${requestId ? ` (request ${requestId})` : ""}. Try again.`;
  }
}

/** The fields of a form that the gateway has refused. */
export const invalidFields = (error: unknown) =>
  new Set(error instanceof GatewayError ? error.errors.map(({ extensions }) => extensions?.field) : []);

const labels: Record<string, string> = {
  displayName: "Name", avatarUrl: "Picture", bio: "About you", content: "Text",
  seoTitle: "Headline", seoDescription: "Description", canonicalUrl: "Canonical URL",
  coverImage: "Cover", upload: "Cover", url: "Cover", alt: "Cover",
  avatar: "Picture", contentType: "Picture", size: "Picture",
};

/** A message after the label of its field. */
function labelled({ message, extensions }: ResponseError) {
  const field = extensions?.field?.replace(/^.*\.|\[.*/g, "") ?? "";
  return sentence(field ? `${labels[field] ?? field}: ${message}` : message);
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export function duration(ms: number) {
  const units = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]] as const;
  const [unit, size] = units.find(([, size]) => ms >= size) ?? units[3];
  const n = Math.max(1, Math.ceil(ms / size));
  return `${n} ${unit}${n === 1 ? "" : "s"}`;
}
