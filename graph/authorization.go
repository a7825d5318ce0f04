package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/fields"
	"byline/graph/refusal"
)

// checkRules returns an error unless every mutation has a rule and every rule a mutation.
func checkRules(mutations *ast.Definition) error {
	for _, f := range mutations.Fields {
		if len(fields.Lookup("Mutation", f.Name).Rule) == 0 {
			return fmt.Errorf("graph: the mutation %s has no rule that says who may execute it", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Table["Mutation"])) {
		if mutations.Fields.ForName(name) == nil {
			return fmt.Errorf("graph: there is a rule for the mutation %s, but no such mutation", name)
		}
	}
	return nil
}

// moderates reports whether the viewer may execute the mutation that ctx belongs to
// as a moderator.
func moderates(ctx context.Context) bool {
	mutation := graphql.GetFieldContext(ctx).Field.Name
	return slices.Contains(fields.Lookup("Mutation", mutation).Rule, fields.Moderator) && requestFrom(ctx).moderator
}

// requireViewer refuses mutations of anonymous callers, as every rule requires. It runs before any
// resolver, for every transport.
type requireViewer struct{}

var _ graphql.OperationContextMutator = requireViewer{}

func (requireViewer) ExtensionName() string                   { return "RequireViewer" }
func (requireViewer) Validate(graphql.ExecutableSchema) error { return nil }

func (requireViewer) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Mutation || viewerID(ctx) != "" {
		return nil
	}
	return gqlerror.Wrap(&refusal.Error{Code: refusal.Unauthenticated, Message: "authentication required: send an Authorization header with a bearer token"})
}
