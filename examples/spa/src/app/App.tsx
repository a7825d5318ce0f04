import { lazy, Suspense, type ReactNode } from "react";
import { RelayEnvironmentProvider } from "react-relay/hooks";
import { Link, Route, Switch, useLocation } from "wouter";
import { FeedPage } from "../feed/FeedPage";
import { environment } from "../network/environment";
import { tagOfPath } from "../tag/tags";
import { Announcer } from "../ui/announce";
import { ArticleSkeleton, ListSkeleton } from "../ui/Skeleton";
import { ErrorBoundary } from "./ErrorBoundary";
import { useScrollToTop } from "./navigation";
import { NotFoundPage } from "./NotFoundPage";
import { PageError } from "./PageError";
import { StatusBar } from "./StatusBar";
import { ViewerMenu } from "./ViewerMenu";

const PostPage = lazy(() => import("../post/PostPage"));
const AuthorPage = lazy(() => import("../author/AuthorPage"));
const TagPage = lazy(() => import("../tag/TagPage"));
const WritePage = lazy(() => import("../write/WritePage"));
const DraftsPage = lazy(() => import("../write/DraftsPage"));
const DraftPage = lazy(() => import("../write/DraftPage"));
const EditPage = lazy(() => import("../write/EditPage"));
const SettingsPage = lazy(() => import("../settings/SettingsPage"));
const SignInPage = lazy(() => import("../signin/SignInPage"));
const CallbackPage = lazy(() => import("../signin/CallbackPage"));
const WelcomePage = lazy(() => import("../signin/WelcomePage"));
const CostBadge = import.meta.env.DEV ? lazy(() => import("./CostBadge")) : () => null;

export function App() {
  return (
    <RelayEnvironmentProvider environment={environment}>
      <a href="#main" className="skip-link">Skip to the content</a>
      <header className="site-header">
        <nav aria-label="Site">
          <Link href="/" className="brand">Byline</Link>
          <ErrorBoundary fallback={() => <Link href="/signin">Sign in</Link>}>
            <Suspense>
              <ViewerMenu />
            </Suspense>
          </ErrorBoundary>
        </nav>
      </header>
      <StatusBar />
      <main id="main" tabIndex={-1}>
        <Pages />
      </main>
      <Announcer />
      <Suspense><CostBadge /></Suspense>
    </RelayEnvironmentProvider>
  );
}

function Pages() {
  const [location] = useLocation();
  useScrollToTop(location);
  return (
    <ErrorBoundary key={location} fallback={(error) => <PageError error={error} />}>
      <Switch>
        <Route path="/"><Loading as={<ListSkeleton />}><FeedPage /></Loading></Route>
        <Route path="/posts/:slug">
          {({ slug }) => <Loading as={<ArticleSkeleton />}><PostPage slug={slug} /></Loading>}
        </Route>
        <Route path="/posts/:slug/edit">{({ slug }) => <Loading><EditPage slug={slug} /></Loading>}</Route>
        <Route path="/authors/:username">
          {({ username }) => <Loading as={<ListSkeleton />}><AuthorPage username={username} /></Loading>}
        </Route>
        <Route path="/tags/:name">
          {({ name }) => <Loading as={<ListSkeleton />}><TagPage name={tagOfPath(name)} /></Loading>}
        </Route>
        <Route path="/write"><Loading><WritePage /></Loading></Route>
        <Route path="/drafts"><Loading as={<ListSkeleton />}><DraftsPage /></Loading></Route>
        <Route path="/drafts/:id">{({ id }) => <Loading><DraftPage id={id} /></Loading>}</Route>
        <Route path="/settings"><Loading><SettingsPage /></Loading></Route>
        <Route path="/signin"><Loading><SignInPage /></Loading></Route>
        <Route path="/signin/callback"><Loading><CallbackPage /></Loading></Route>
        <Route path="/welcome"><Loading><WelcomePage /></Loading></Route>
        <Route><NotFoundPage /></Route>
      </Switch>
    </ErrorBoundary>
  );
}

function Loading({ as = <ArticleSkeleton />, children }: { as?: ReactNode; children: ReactNode }) {
  return <Suspense fallback={<div className="page">{as}</div>}>{children}</Suspense>;
}
