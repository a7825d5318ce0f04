import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import type { useViewerQuery } from "../__generated__/useViewerQuery.graphql";
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

function useSignedInViewer() {
  return useLazyLoadQuery<useViewerQuery>(query, {}, { fetchPolicy: "store-or-network" }).viewer ?? null;
}

/** The viewer's user; null for anonymous readers, and for new ones until they have chosen a username. */
export const useViewer: typeof useSignedInViewer = signedIn ? useSignedInViewer : () => null;
