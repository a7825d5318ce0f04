import { graphql, loadQuery, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { useViewerQuery } from "../__generated__/useViewerQuery.graphql";
import { environment } from "../network/environment";
import { signedIn } from "./session";

const query = graphql`
  query useViewerQuery {
    viewer {
      id
      username
      displayName
      avatarUrl
    }
  }
`;

// Sent at once, beside the query of the first page, and never disposed.
const loaded = signedIn ? loadQuery<useViewerQuery>(environment, query, {}) : undefined;

const useLoaded = (loaded: PreloadedQuery<useViewerQuery>) =>
  usePreloadedQuery<useViewerQuery>(query, loaded).viewer ?? null;

/** The viewer's user; null for anonymous readers, and for new ones until they have chosen a username. */
export const useViewer: () => ReturnType<typeof useLoaded> = loaded ? () => useLoaded(loaded) : () => null;
