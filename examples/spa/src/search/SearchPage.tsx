import type { PreloadedQuery } from "react-relay/hooks";
import { useSearch } from "wouter/use-browser-location";
import type { SearchPageQuery } from "../__generated__/SearchPageQuery.graphql";
import { ErrorBoundary } from "../app/ErrorBoundary";
import { PageHeading } from "../app/PageHeading";
import { codeOf } from "../network/errors";
import { ErrorNote } from "../ui/ErrorNote";
import { searchOf, variablesOf } from "./address";
import { SearchBox } from "./SearchBox";
import { SearchResults } from "./SearchResults";
import "./search.css";

/** The posts that match what one types. While a search is under way, the page shows the one before. */
export default function SearchPage({ query }: { query?: PreloadedQuery<SearchPageQuery> }) {
  const parameters = useSearch();
  const search = searchOf(parameters);
  const shown = JSON.stringify(query?.variables);
  const title = search.q?.trim() ? `${search.q.trim()} · Search` : "Search";
  return (
    <div className="page">
      <PageHeading title={title} hidden>Search</PageHeading>
      <SearchBox search={search} />
      <div aria-busy={JSON.stringify(variablesOf(parameters)) !== shown} className="search-results">
        {query ? (
          <ErrorBoundary key={shown} fallback={(error) => <SearchError error={error} />}>
            <SearchResults query={query} />
          </ErrorBoundary>
        ) : (
          <p className="hint">
            Finds posts with all your words, in any form: <i>ride</i> also finds <i>rides</i>. Quotes keep words
            together, and a minus excludes: <i>"red bicycle" -race</i>.
          </p>
        )}
      </div>
    </div>
  );
}

function SearchError({ error }: { error: unknown }) {
  return (
    <div id="search-error">
      <ErrorNote error={error}>
        {codeOf(error) !== "BAD_USER_INPUT" && (
          <button type="button" className="button" onClick={() => { location.reload(); }}>Try again</button>
        )}
      </ErrorNote>
    </div>
  );
}
