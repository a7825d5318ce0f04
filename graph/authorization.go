package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// relation is what somebody who is signed in must be to what a mutation writes.
type relation string

const (
	anyone    relation = "anyone signed in" // it makes something of the viewer's own
	self      relation = "self"             // it writes what is the viewer's own by definition
	author    relation = "author"           // of the post or comment
	moderator relation = "moderator"        // by the role that the provider gives
)

// mutationRules is who may execute which mutation: whoever is signed in and stands in one of
// the relations. Nobody may execute a mutation that is not here, and a schema that has
// one is not served. Anybody may query and subscribe.
//
// author holds where the item is written: it is a condition of the write itself, so
// that nothing can come in between. Nobody can change the words of others.
var mutationRules = map[string][]relation{
	"createUser":    {self},
	"updateUser":    {self},
	"createPost":    {anyone},
	"updatePost":    {author},
	"deletePost":    {author, moderator},
	"createComment": {anyone},
	"updateComment": {author},
	"deleteComment": {author, moderator},
	"likePost":      {anyone},
	"unlikePost":    {self},
}

// checkRules reports an error unless each mutation has a rule, and each rule its
// mutation.
func checkRules(mutations *ast.Definition) error {
	for _, f := range mutations.Fields {
		if len(mutationRules[f.Name]) == 0 {
			return fmt.Errorf("graph: the mutation %s has no rule that says who may execute it", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mutationRules)) {
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
	return slices.Contains(mutationRules[mutation], moderator) && requestFrom(ctx).moderator
}

// signedInToWrite is the part of the rules that they have in common. It runs before
// any resolver, for every transport.
type signedInToWrite struct{}

var _ graphql.OperationContextMutator = signedInToWrite{}

func (signedInToWrite) ExtensionName() string                   { return "SignedInToWrite" }
func (signedInToWrite) Validate(graphql.ExecutableSchema) error { return nil }

func (signedInToWrite) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Mutation || viewerID(ctx) != "" {
		return nil
	}
	return gqlerror.Wrap(&refusal{code: unauthenticated, message: "authentication required: send an Authorization header with a bearer token"})
}
