package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/generated"
)

// Schema returns the schema as it is served. It lacks @defer, which the generated code would
// ignore, the location DIRECTIVE_DEFINITION, which is not in the specification and which clients
// do not know, and, unless introspection is served, the fields for it.
func Schema(introspection bool) *ast.Schema {
	schema := *generated.NewExecutableSchema(generated.Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	deprecated := *schema.Directives["deprecated"]
	deprecated.Locations = without(deprecated.Locations, func(l ast.DirectiveLocation) bool {
		return l == directiveDefinition
	})
	schema.Directives[deprecated.Name] = &deprecated
	schema.Types = maps.Clone(schema.Types)
	locations := *schema.Types["__DirectiveLocation"]
	locations.EnumValues = without(locations.EnumValues, func(v *ast.EnumValueDefinition) bool {
		return v.Name == directiveDefinition
	})
	schema.Types[locations.Name] = &locations
	if !introspection {
		query := *schema.Query
		query.Fields = without(query.Fields, func(f *ast.FieldDefinition) bool {
			return f.Name == "__schema" || f.Name == "__type"
		})
		schema.Types[query.Name], schema.Query = &query, &query
	}
	return &schema
}

const directiveDefinition = "DIRECTIVE_DEFINITION"

// without returns a copy of a list without the elements for which remove returns true.
func without[L ~[]E, E any](list L, remove func(E) bool) L {
	return slices.DeleteFunc(slices.Clone(list), remove)
}

// introspected serves introspection, with null for the fields of __Type that a kind of type does not have (GraphQL,
// section 4.2.2). The executor's are an empty list or false.
type introspected struct{ extension.Introspection }

var _ graphql.FieldInterceptor = introspected{}

// kindsOf has the kinds of types that have a field of __Type. The executor has null where other fields are missing.
var kindsOf = map[string][]ast.DefinitionKind{
	"fields":        {ast.Object, ast.Interface},
	"interfaces":    {ast.Object, ast.Interface},
	"possibleTypes": {ast.Interface, ast.Union},
	"enumValues":    {ast.Enum},
	"inputFields":   {ast.InputObject},
	"isOneOf":       {ast.InputObject},
}

// InterceptField implements graphql.FieldInterceptor.
func (introspected) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if kinds, some := kindsOf[field.Field.Name]; some && field.Object == "__Type" {
		of := field.Parent.Result.(*introspection.Type)
		if !slices.Contains(kinds, ast.DefinitionKind(of.Kind())) {
			return nil, nil
		}
	}
	return next(ctx)
}
