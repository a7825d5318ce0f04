package graph

import (
	"maps"
	"slices"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/generated"
)

// inputTypes is a schema that has all input types.
var inputTypes = sync.OnceValue(func() *ast.Schema { return Schema(false) })

// Schema returns the schema as it is served. It lacks @defer, which the generated code would
// ignore, and, unless introspection is served, the fields for it.
func Schema(introspection bool) *ast.Schema {
	schema := *generated.NewExecutableSchema(generated.Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	if !introspection {
		query := *schema.Query
		query.Fields = slices.DeleteFunc(slices.Clone(query.Fields), func(f *ast.FieldDefinition) bool {
			return f.Name == "__schema" || f.Name == "__type"
		})
		schema.Types = maps.Clone(schema.Types)
		schema.Types[query.Name], schema.Query = &query, &query
	}
	return &schema
}
