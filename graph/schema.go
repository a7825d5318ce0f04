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
// ignore, the location DIRECTIVE_DEFINITION, which is not in the specification and which clients
// do not know, and, unless introspection is served, the fields for it.
func Schema(introspection bool) *ast.Schema {
	schema := *generated.NewExecutableSchema(generated.Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	deprecated := *schema.Directives["deprecated"]
	deprecated.Locations = without(deprecated.Locations, func(l ast.DirectiveLocation) bool { return l == directiveDefinition })
	schema.Directives[deprecated.Name] = &deprecated
	schema.Types = maps.Clone(schema.Types)
	locations := *schema.Types["__DirectiveLocation"]
	locations.EnumValues = without(locations.EnumValues, func(v *ast.EnumValueDefinition) bool { return v.Name == directiveDefinition })
	schema.Types[locations.Name] = &locations
	if !introspection {
		query := *schema.Query
		query.Fields = without(query.Fields, func(f *ast.FieldDefinition) bool { return f.Name == "__schema" || f.Name == "__type" })
		schema.Types[query.Name], schema.Query = &query, &query
	}
	return &schema
}

const directiveDefinition = "DIRECTIVE_DEFINITION"

// without returns a copy of a list without the elements for which remove returns true.
func without[L ~[]E, E any](list L, remove func(E) bool) L {
	return slices.DeleteFunc(slices.Clone(list), remove)
}
