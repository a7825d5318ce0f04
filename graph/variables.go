package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// strictVariables refuses what the executor would find out while it executes, or never (GraphQL,
// sections 3.5.1 and 3.9): variables, be they within an input, that stand for an Int and are a
// text, a fraction or a number of more than 32 bits; and for an enum, in another case than its
// values.
type strictVariables struct{ schema *ast.Schema }

var _ graphql.OperationContextMutator = strictVariables{}

func (strictVariables) ExtensionName() string                   { return "StrictVariables" }
func (strictVariables) Validate(graphql.ExecutableSchema) error { return nil }

func (s strictVariables) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	for _, v := range op.Operation.VariableDefinitions {
		if member, what, typ := s.find(v.Type, op.Variables[v.Variable]); what != "" {
			return gqlerror.Wrap(refuse(v.Variable+member, "$%s%s: cannot use %s as %s", v.Variable, member, what, typ))
		}
	}
	return nil
}

// find finds something in a value that is none of the type that it has there: where within the
// value that is, and what. No input has a list of numbers or of enums.
func (s strictVariables) find(t *ast.Type, value any) (member, what, typ string) {
	switch v := value.(type) {
	case string:
		if t.NamedType == "Int" {
			return "", "a String", "Int"
		}
		if d := s.schema.Types[t.Name()]; d.Kind == ast.Enum && d.EnumValues.ForName(v) == nil {
			return "", "an unknown value", d.Name
		}
	case float64:
		if t.NamedType == "Int" {
			return "", "a Float", "Int"
		}
	case int64:
		if t.NamedType == "Int" && int64(int32(v)) != v {
			return "", "a number of more than 32 bits", "Int"
		}
	case map[string]any:
		for _, f := range s.schema.Types[t.Name()].Fields {
			if member, what, typ = s.find(f.Type, v[f.Name]); what != "" {
				return "." + f.Name + member, what, typ
			}
		}
	}
	return "", "", ""
}
