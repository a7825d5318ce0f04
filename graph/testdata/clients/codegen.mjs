// Types for app.ts, as the documentation of graphql-codegen has it for a client.
export default {
  schema: "schema.graphqls",
  documents: ["app.ts"],
  generates: { "gql/": { preset: "client", config: { scalars: { DateTime: "string" }, strictScalars: true, useTypeImports: true } } },
};
