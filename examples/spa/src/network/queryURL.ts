/** The address of a query: the hash of its document and its variables, always in one order, since caches go by it. */
export const queryURL = (documentId: string, variables: object) =>
  `/graphql?${new URLSearchParams({ documentId, variables: JSON.stringify(variables) })}`;
