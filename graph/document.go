package graph

import (
	"context"
	"fmt"
	"math"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

const (
	maxTokens = 4000   // of a document
	maxSpread = 10_000 // selections and values of a document, fragments counted wherever they are spread
	maxErrors = 20     // that are reported of a document
)

// documentLimit refuses documents that grow when their fragments are spread, before
// they are validated: validation walks a fragment again for each operation and each
// fragment that spreads it, and some rules for each spread, so that a kilobyte could
// keep it busy for hours. Fragments that spread themselves, which would grow without
// end, are refused on the way.
type documentLimit struct{ validated *queryCache }

var _ graphql.OperationParameterMutator = documentLimit{}

func (documentLimit) ExtensionName() string                   { return "DocumentLimit" }
func (documentLimit) Validate(graphql.ExecutableSchema) error { return nil }

func (l documentLimit) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if _, ok := l.validated.Get(ctx, params.Query); ok {
		return nil
	}
	document, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: params.Query}, maxTokens)
	if err != nil {
		return nil // the executor parses it again, and says what is wrong
	}
	return checkSpread(document)
}

// checkSpread refuses a document that is too large with its fragments spread.
func checkSpread(document *ast.QueryDocument) *gqlerror.Error {
	c := newSpreadCount(document)
	total := c.size(document)
	if s := c.cycle; s != nil {
		err := gqlerror.ErrorPosf(s.Position, "")
		err.Err = &refusal{code: validationFailed, message: bounded(fmt.Sprintf("Cannot spread fragment %q within itself.", s.Name), maxMessage)}
		return err
	}
	if total > maxSpread {
		return gqlerror.Wrap(&refusal{code: queryTooExpensive, message: fmt.Sprintf(
			"with its fragments spread, this document has %d selections and values, and at most %d are allowed", total, maxSpread)})
	}
	return nil
}

func saturated(n int) int { return min(n, math.MaxInt32) }

// spreadCount counts selections and values as they are after spreading. It looks at
// each fragment once, however often it is spread, and stops counting at the largest
// int32.
type spreadCount struct {
	fragments map[string]*spreadFragment
	cycle     *ast.FragmentSpread // a spread within its own fragment, if there is one
}

type spreadFragment struct {
	definition *ast.FragmentDefinition
	state      int // unknown, counting, or counted
	size       int
}

const (
	unknown = iota
	counting
	counted
)

func newSpreadCount(document *ast.QueryDocument) *spreadCount {
	c := &spreadCount{fragments: make(map[string]*spreadFragment, len(document.Fragments))}
	for _, f := range document.Fragments {
		c.fragments[f.Name] = &spreadFragment{definition: f}
	}
	return c
}

// size is that of all operations, and of all fragments by themselves: validation
// walks them all.
func (c *spreadCount) size(document *ast.QueryDocument) int {
	total := 0
	for _, operation := range document.Operations {
		total = saturated(total + directivesSize(operation.Directives) + c.selection(operation.SelectionSet))
	}
	for _, f := range document.Fragments {
		total = saturated(total + c.fragment(f.Name))
	}
	return total
}

func (c *spreadCount) selection(set ast.SelectionSet) int {
	total := 0
	for _, selected := range set {
		n := 1
		switch s := selected.(type) {
		case *ast.Field:
			n += argumentsSize(s.Arguments) + directivesSize(s.Directives) + c.selection(s.SelectionSet)
		case *ast.InlineFragment:
			n += directivesSize(s.Directives) + c.selection(s.SelectionSet)
		case *ast.FragmentSpread:
			if f := c.fragments[s.Name]; f != nil && f.state == counting {
				c.cycle = s
			}
			n += directivesSize(s.Directives) + c.fragment(s.Name)
		}
		total = saturated(total + n)
	}
	return total
}

// fragment is the size of a fragment, 0 if there is none or it is being counted.
func (c *spreadCount) fragment(name string) int {
	f := c.fragments[name]
	if f == nil {
		return 0
	}
	if f.state == unknown {
		f.state = counting
		f.size = saturated(directivesSize(f.definition.Directives) + c.selection(f.definition.SelectionSet))
		f.state = counted
	}
	return f.size
}

func directivesSize(directives ast.DirectiveList) int {
	total := len(directives)
	for _, d := range directives {
		total += argumentsSize(d.Arguments)
	}
	return total
}

func argumentsSize(arguments ast.ArgumentList) int {
	total := 0
	for _, a := range arguments {
		total += valueSize(a.Value)
	}
	return total
}

func valueSize(v *ast.Value) int {
	total := 1
	for _, child := range v.Children {
		total += valueSize(child.Value)
	}
	return total
}

// validationRules are those of the specification, with a mergeRule that takes time
// by the length of the document rather than by its square.
func validationRules() *rules.Rules {
	all := rules.NewDefaultRules()
	all.ReplaceRule(mergeRule.Name, mergeRule.RuleFunc)
	return all
}
