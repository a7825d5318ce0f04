/** The nodes of a connection, without those that @deleteRecord has removed. */
export const nodesOf = <Node>({ edges }: { readonly edges: readonly { readonly node: Node }[] }) =>
  edges.map(({ node }) => node).filter((node) => node != null);
