package document

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

// nullVariables refuses null for a nullable variable in a non-null position. The position is valid
// if the variable has a default, but the default is for a missing value, not for null (GraphQL,
// sections 5.8.5 and 6.4.1). The executor would panic at such a null in @skip and @include, and
// take it for an empty string elsewhere.
type nullVariables struct{}

var _ graphql.OperationContextMutator = nullVariables{}

func (nullVariables) ExtensionName() string                   { return "NullVariables" }
func (nullVariables) Validate(graphql.ExecutableSchema) error { return nil }

func (nullVariables) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	for _, v := range op.Operation.VariableDefinitions {
		if v.DefaultValue != nil && isNull(op.Variables, v.Variable) {
			return findMisplacedNull(op)
		}
	}
	return nil
}

func isNull(variables map[string]any, name string) bool {
	value, given := variables[name]
	return given && value == nil
}

func findMisplacedNull(op *graphql.OperationContext) *gqlerror.Error {
	s := nullSearch{variables: op.Variables, seen: map[*ast.FragmentDefinition]bool{}}
	s.directives(op.Operation.Directives)
	s.selections(op.Operation.SelectionSet)
	if s.found == nil {
		return nil
	}
	err := gqlerror.ErrorPosf(s.found.Position, "")
	err.Err = refusal.Input(s.found.Raw, blog.ReasonBlank, "cannot be null where a value of type %s is expected",
		s.found.ExpectedType)
	return err
}

// nullSearch looks for a null variable in a non-null position.
type nullSearch struct {
	variables map[string]any
	seen      map[*ast.FragmentDefinition]bool
	found     *ast.Value // nil: none
}

func (s *nullSearch) selections(set ast.SelectionSet) {
	for _, selected := range set {
		switch v := selected.(type) {
		case *ast.Field:
			s.arguments(v.Arguments)
			s.directives(v.Directives)
			s.selections(v.SelectionSet)
		case *ast.InlineFragment:
			s.directives(v.Directives)
			s.selections(v.SelectionSet)
		case *ast.FragmentSpread:
			s.directives(v.Directives)
			if !s.seen[v.Definition] {
				s.seen[v.Definition] = true
				s.directives(v.Definition.Directives)
				s.selections(v.Definition.SelectionSet)
			}
		}
	}
}

func (s *nullSearch) directives(all ast.DirectiveList) {
	for _, d := range all {
		s.arguments(d.Arguments)
	}
}

func (s *nullSearch) arguments(all ast.ArgumentList) {
	for _, a := range all {
		s.value(a.Value)
	}
}

func (s *nullSearch) value(v *ast.Value) {
	if v.Kind == ast.Variable && v.ExpectedType != nil && v.ExpectedType.NonNull && isNull(s.variables, v.Raw) {
		s.found = v
	}
	for _, child := range v.Children {
		s.value(child.Value)
	}
}
