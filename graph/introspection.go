package graph

import (
	"context"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/vektah/gqlparser/v2/ast"
)

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
