// Lints schema.graphqls with the recommended rules and the Relay rules of @graphql-eslint, some of
// them adjusted, and with further rules.
import graphql from "@graphql-eslint/eslint-plugin";

export default [
  {
    files: ["schema.graphqls"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema: "schema.graphqls" } } },
    plugins: { "@graphql-eslint": graphql },
    rules: {
      ...graphql.configs["flat/schema-recommended"].rules,
      ...graphql.configs["flat/schema-relay"].rules,

      // Connections, edges and payloads have no identity of their own, and a month is a count.
      "@graphql-eslint/strict-id-in-types": [
        "error",
        { exceptions: { types: ["PageInfo", "Month", "CoverImage", "HttpHeader", "Snippet", "TextRange"], suffixes: ["Connection", "Edge", "Payload"] } },
      ],
      // Relay itself specifies nodes(ids:): [Node]!.
      "@graphql-eslint/relay-edge-types": ["error", { listTypeCanWrapOnlyEdgeType: false }],
      // Lists page forwards only, which Relay allows.
      "@graphql-eslint/relay-arguments": ["error", { includeBoth: false }],
      // One line is written in quotes, several as a block.
      "@graphql-eslint/description-style": "off",

      // Everything has a description.
      "@graphql-eslint/require-description": [
        "error",
        {
          types: true,
          rootField: true,
          DirectiveDefinition: true,
          EnumValueDefinition: true,
          FieldDefinition: true,
          InputValueDefinition: true,
        },
      ],
      // A mutation takes one input, of a type named for it, and returns an object.
      "@graphql-eslint/input-name": ["error", { checkInputType: true, caseSensitiveInputType: false }],
      "@graphql-eslint/no-scalar-result-type-on-mutation": "error",
    },
  },
];
