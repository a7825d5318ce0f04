export default {
  schema: "schema.graphqls",
  documents: ["src/**/*.ts", "src/**/*.tsx"],
  generates: {
    "src/gql/": { preset: "client", config: { scalars: { DateTime: "string" }, strictScalars: true, useTypeImports: true } },
  },
};
