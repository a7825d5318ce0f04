import { lazy, Suspense } from "react";
import { RelayEnvironmentProvider } from "react-relay/hooks";
import { Link } from "wouter";
import { environment } from "../network/environment";
import { RequireUser } from "../session/RequireUser";
import { Announcer } from "../ui/announce";
import { ErrorBoundary } from "./ErrorBoundary";
import { useScrollToTop } from "./navigation";
import { openSearch } from "./openSearch";
import { usePage } from "./page";
import { PageError } from "./PageError";
import { StatusBar } from "./StatusBar";
import { ViewerMenu } from "./ViewerMenu";

const CostBadge = import.meta.env.DEV ? lazy(() => import("./CostBadge")) : () => null;

export function App() {
  return (
    <RelayEnvironmentProvider environment={environment}>
      <a href="#main" className="skip-link">Skip to the content</a>
      <header className="site-header">
        <nav aria-label="Site">
          <Link href="/" className="brand">Byline</Link>
          <Link href="/search" aria-keyshortcuts="/" onClick={openSearch}>Search</Link>
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
  const { path, route: { Page, Skeleton, forUsers }, query } = usePage();
  useScrollToTop(path);
  const page = <Page query={query} />;
  return (
    <ErrorBoundary key={path} fallback={(error) => <PageError error={error} />}>
      <Suspense fallback={<div className="page"><Skeleton /></div>}>
        {forUsers ? <RequireUser>{page}</RequireUser> : page}
      </Suspense>
    </ErrorBoundary>
  );
}
