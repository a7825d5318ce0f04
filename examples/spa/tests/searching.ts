import type { Page } from "@playwright/test";

interface Found {
  title: string;
  snippet: string; // with [brackets] around the matches
  tags?: string[];
}

/** What the gateway responds to a search: posts, or an error. */
type Answer = { posts: Found[]; hasNextPage?: boolean } | { error: { message: string; extensions: object } };

export interface Variables {
  query: string;
  order?: string;
  tag?: string;
  author?: string;
  after?: string;
}

/** Answers the searches of a page instead of the gateway, each when answer resolves. */
export const onSearch = (page: Page, answer: (variables: Variables) => Answer | Promise<Answer>) =>
  page.route(/\/graphql\?/, async (route) => {
    const variables = JSON.parse(new URL(route.request().url()).searchParams.get("variables") ?? "{}") as Variables;
    if (typeof variables.query !== "string") return route.fallback();
    const given = await answer(variables);
    const body = "error" in given
      ? { data: null, errors: [{ ...given.error, path: ["search"] }] }
      : { data: { search: connection(given.posts, Number(variables.after ?? 0), given.hasNextPage ?? false) } };
    await route.fulfill({ json: body }).catch(() => undefined); // the page has aborted it
  });

const connection = (posts: Found[], after: number, hasNextPage: boolean) => ({
  edges: posts.map((post, i) => ({
    cursor: String(after + i + 1),
    snippet: { text: post.snippet.replaceAll(/[[\]]/g, ""), matches: rangesOf(post.snippet) },
    node: nodeOf(post, after + i),
  })),
  pageInfo: { endCursor: String(after + posts.length), hasNextPage },
});

/** The ranges of the brackets in a text, in the text without them. */
const rangesOf = (text: string) =>
  [...text.matchAll(/\[([^\]]*)\]/g)].map(({ index, 1: match = "" }, n) => {
    const start = index - 2 * n;
    return { start, end: start + match.length };
  });

const nodeOf = ({ title, tags = [] }: Found, n: number) => ({
  __typename: "Post",
  id: `post-${title}-${n}`,
  slug: `slug-${n}`,
  title,
  excerpt: "The excerpt.",
  tags,
  likeCount: n,
  commentCount: 1,
  createdAt: "2026-11-01T10:00:00Z",
  updatedAt: null,
  coverImage: null,
  author: {
    __typename: "User", id: "user-ada", username: "ada", displayName: "Ada Lovelace", avatarUrl: null,
  },
});
