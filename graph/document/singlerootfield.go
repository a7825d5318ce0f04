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
// Subscriptions with several fields are invalid: see singleRootFieldRule.
type singleRootField struct{}

var _ graphql.OperationContextMutator = singleRootField{}

func (singleRootField) ExtensionName() string                   { return "SingleRootField" }
func (singleRootField) Validate(graphql.ExecutableSchema) error { return nil }

func (singleRootField) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation == ast.Subscription &&
		len(graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})) != 1 {
		return gqlerror.Wrap(&refusal.Error{Code: refusal.ValidationFailed, Message: messageSingleRootField})
	}
	return nil
}

// CheckVariables refuses variables that the executor would accept, or refuse only while it executes.
// Operations of an executor with Install are checked likewise.
func CheckVariables(schema *ast.Schema, op *graphql.OperationContext) error {
	checks := []graphql.OperationContextMutator{nullVariables{}, strictVariables{schema}, singleRootField{}}
	for _, check := range checks {
		if err := check.MutateOperationContext(context.Background(), op); err != nil {
			return err
		}
	}
	return nil
}
