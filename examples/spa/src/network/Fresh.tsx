import { useEffect, useState, type ReactNode } from "react";
import { fetchQuery, useRelayEnvironment } from "react-relay/hooks";
import type { GraphQLTaggedNode, OperationType } from "relay-runtime";
import { ArticleSkeleton } from "../ui/Skeleton";

interface Props<Query extends OperationType> {
  query: GraphQLTaggedNode;
  variables: Query["variables"];
  children: ReactNode;
}

/**
 * Fetches a query when it is mounted, and then shows children, which read the query from the store. A fetch policy
 * of network-only would not do: React's strict mode mounts twice, and the query is fetched again each time it is shown.
 */
export function Fresh<Query extends OperationType>({ query, variables, children }: Props<Query>) {
  const environment = useRelayEnvironment();
  const [result, setResult] = useState<"fetched" | { error: Error }>();
  useEffect(() => {
    const request = fetchQuery<Query>(environment, query, variables).subscribe({
      complete: () => { setResult("fetched"); },
      error: (error: Error) => { setResult({ error }); },
    });
    return () => { request.unsubscribe(); };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- with other variables it has another key
  }, []);
  if (result === undefined) return <ArticleSkeleton />;
  if (result !== "fetched") throw result.error;
  return children;
}
