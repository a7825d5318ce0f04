package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// noTextsForNumbers refuses variables of type Int that are texts, be they within an input
// (GraphQL, section 3.5.1). The executor would take those for a number that look like one.
type noTextsForNumbers struct{ schema *ast.Schema }

var _ graphql.OperationContextMutator = noTextsForNumbers{}

func (noTextsForNumbers) ExtensionName() string                   { return "NoTextsForNumbers" }
func (noTextsForNumbers) Validate(graphql.ExecutableSchema) error { return nil }

func (n noTextsForNumbers) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	for _, v := range op.Operation.VariableDefinitions {
		if member, found := n.find(v.Type, op.Variables[v.Variable]); found {
			return gqlerror.Wrap(refuse(v.Variable+member, "$%s%s: cannot use string as Int", v.Variable, member))
		}
	}
	return nil
}

// find finds a text that stands for a number in a value, and returns where within it that
// is. No input has a list of numbers.
func (n noTextsForNumbers) find(t *ast.Type, value any) (member string, found bool) {
	switch v := value.(type) {
	case string:
		return "", t.NamedType == "Int"
	case map[string]any:
		for _, f := range n.schema.Types[t.Name()].Fields {
			if member, found = n.find(f.Type, v[f.Name]); found {
				return "." + f.Name + member, true
			}
		}
	}
	return "", false
}
