package document

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
)

const messageSingleRootField = "a subscription must select exactly one field, and not an introspection field"

// singleRootField refuses subscriptions whose only field is excluded by @skip or @include.
// Subscriptions with several fields are invalid: see oneStreamRule.
type singleRootField struct{}

var _ graphql.OperationContextMutator = singleRootField{}

func (singleRootField) ExtensionName() string                   { return "OneStream" }
func (singleRootField) Validate(graphql.ExecutableSchema) error { return nil }

func (singleRootField) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation == ast.Subscription && len(graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})) != 1 {
		return gqlerror.Wrap(&refusal.Error{Code: refusal.ValidationFailed, Message: messageSingleRootField})
	}
	return nil
}

// CheckVariables refuses an operation whose variables have values that the executor would not
// refuse, or only while it executes. Install has all operations checked.
func CheckVariables(schema *ast.Schema, op *graphql.OperationContext) error {
	for _, check := range []graphql.OperationContextMutator{nullVariables{}, strictVariables{schema}, singleRootField{}} {
		if err := check.MutateOperationContext(context.Background(), op); err != nil {
			return err
		}
	}
	return nil
}
