import { lazy, type ComponentType } from "react";
import type { PreloadedQuery } from "react-relay/hooks";
import type { OperationType, PreloadableConcreteRequest } from "relay-runtime";
import type { StringRouteParams } from "wouter";
import authorQuery from "../__generated__/AuthorPageQuery$parameters";
import bookmarksQuery from "../__generated__/BookmarksPageQuery$parameters";
import draftQuery from "../__generated__/DraftPageQuery$parameters";
import draftsQuery from "../__generated__/DraftsPageQuery$parameters";
import editQuery from "../__generated__/EditPageQuery$parameters";
import feedQuery from "../__generated__/FeedPageQuery$parameters";
import followersQuery from "../__generated__/FollowersPageQuery$parameters";
import followingQuery from "../__generated__/FollowingPageQuery$parameters";
import homeQuery from "../__generated__/HomePageQuery$parameters";
import likedQuery from "../__generated__/LikedPageQuery$parameters";
import postQuery from "../__generated__/PostPageQuery$parameters";
import searchQuery from "../__generated__/SearchPageQuery$parameters";
import settingsQuery from "../__generated__/SettingsPageQuery$parameters";
import tagQuery from "../__generated__/TagPageQuery$parameters";
import { FeedPage } from "../feed/FeedPage";
import { FeedSkeleton } from "../feed/FeedTabs";
import { variablesOf } from "../search/address";
import { ArticleSkeleton, ListSkeleton } from "../ui/Skeleton";
import { NotFoundPage } from "./NotFoundPage";

/** The first route that matches a path is its page. The code of the front page is in the entry. */
export const routes: readonly Route[] = [
  route("/", { Page: FeedPage, query: feedQuery, Skeleton: FeedSkeleton }),
  route("/home", {
    code: () => import("../home/HomePage"), query: homeQuery, Skeleton: FeedSkeleton, forUsers: true, fresh: false,
  }),
  route("/posts/:slug", { code: () => import("../post/PostPage"), query: postQuery }),
  route("/posts/:slug/edit", { code: () => import("../write/EditPage"), query: editQuery, forUsers: true }),
  route("/authors/:username", {
    code: () => import("../author/AuthorPage"), query: authorQuery, Skeleton: ListSkeleton,
  }),
  route("/authors/:username/followers", {
    code: () => import("../follow/FollowersPage"), query: followersQuery, Skeleton: ListSkeleton,
  }),
  route("/authors/:username/following", {
    code: () => import("../follow/FollowingPage"), query: followingQuery, Skeleton: ListSkeleton,
  }),
  route("/tags/:name", { code: () => import("../tag/TagPage"), query: tagQuery, Skeleton: ListSkeleton }),
  route("/search", {
    code: () => import("../search/SearchPage"), query: searchQuery, variables: variablesOf, Skeleton: ListSkeleton,
  }),
  route("/write", { code: () => import("../write/WritePage"), forUsers: true }),
  route("/drafts", {
    code: () => import("../write/DraftsPage"), query: draftsQuery, Skeleton: ListSkeleton, forUsers: true,
  }),
  route("/drafts/:id", { code: () => import("../write/DraftPage"), query: draftQuery, forUsers: true }),
  route("/liked", {
    code: () => import("../saved/LikedPage"), query: likedQuery, Skeleton: ListSkeleton, forUsers: true, fresh: false,
  }),
  route("/bookmarks", {
    code: () => import("../saved/BookmarksPage"),
    query: bookmarksQuery,
    Skeleton: ListSkeleton,
    forUsers: true,
    fresh: false,
  }),
  route("/settings", { code: () => import("../settings/SettingsPage"), query: settingsQuery, forUsers: true }),
  route("/signin", { code: () => import("../signin/SignInPage") }),
  route("/signin/callback", { code: () => import("../signin/CallbackPage") }),
  route("/welcome", { code: () => import("../signin/WelcomePage") }),
  route("*", { Page: NotFoundPage }),
];

export interface Route {
  path: string;
  code?: () => Promise<unknown>;
  Page: ComponentType<{ query?: PreloadedQuery<OperationType> }>;
  query?: PreloadableConcreteRequest<OperationType>; // its variables are the parameters of the path, unless:
  variables?: VariablesOf<OperationType>;
  Skeleton: ComponentType; // holds the place of the page while it loads
  forUsers: boolean; // others sign in first
  fresh: boolean; // the query is always sent, since users edit what it selects
}

/** The variables of a query, by what follows the path: "?" and more. If they are undefined, the query is not sent. */
type VariablesOf<Query extends OperationType> = (search: string) => Query["variables"] | undefined;

type PageOf<Query extends OperationType> = ComponentType<{ query: PreloadedQuery<Query> }>;

type Options<Query extends OperationType> = Partial<Pick<Route, "Skeleton" | "forUsers" | "fresh">> & {
  query?: PreloadableConcreteRequest<Query>;
} & (
  | { code: () => Promise<{ default: PageOf<Query> }>; Page?: undefined }
  | { code?: undefined; Page: PageOf<Query> }
);

type Parameters<Path extends string> = Record<Extract<keyof StringRouteParams<Path>, string>, string>;

type Variables<Path extends string, Query extends OperationType> = Parameters<Path> extends Query["variables"]
  ? { variables?: undefined }
  : { variables: VariablesOf<Query> };

/** A route whose page takes the query beside it. Its path has the parameters that are the query's variables, or not. */
function route<Path extends string, Query extends OperationType>(
  path: Path,
  options: Options<Query> & Variables<Path, Query>,
): Route {
  const { code, Page, query, variables, Skeleton = ArticleSkeleton, forUsers = false, fresh = forUsers } = options;
  return { path, code, Page: (code ? lazy(code) : Page) as Route["Page"], query, variables, Skeleton, forUsers, fresh };
}
