package document

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"byline/graph/refusal"
)

const (
	MaxTokens  = 4000   // of a document
	MaxSpread  = 10_000 // selections and values of a document, with its fragments expanded
	MaxAliases = 100    // of a document, likewise
	MaxAlias   = 200    // bytes of an alias, which is repeated for each item of a list and in the path of each error
	MaxDepth   = 20     // levels of nested fields
)

// documentLimit refuses documents that are too large with their fragments expanded, before
// they are validated: validation walks a fragment again for each operation and each
// fragment that spreads it, and some rules for each spread, so that a document of a
// kilobyte could keep it busy for hours. It also refuses fragments that spread themselves,
// fields that are nested too deeply, and too many aliases, which make a response large
// without any reads from Cosmos DB.
type documentLimit struct{ validated *Documents }

var _ graphql.OperationParameterMutator = documentLimit{}

func (documentLimit) ExtensionName() string                   { return "DocumentLimit" }
func (documentLimit) Validate(graphql.ExecutableSchema) error { return nil }

func (l documentLimit) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	params.Query = withoutCR(params.Query)
	if _, ok := l.validated.Get(ctx, params.Query); ok {
		return nil
	}
	_, err := parse(params.Query)
	return err
}

// Parse parses and validates a document as the executor does, except for its variables.
func Parse(schema *ast.Schema, text string) (*ast.QueryDocument, error) {
	text = withoutCR(text)
	document, err := parse(text)
	if err != nil {
		Locate(text, gqlerror.List{err})
		return nil, err
	}
	if len(document.Operations) == 0 {
		return nil, errors.New("it has no operations")
	}
	if errs := validator.ValidateWithRules(schema, document, validationRules()); len(errs) > 0 {
		Locate(text, errs[:1])
		return nil, errs[0]
	}
	return document, nil
}

// checkFragments refuses a document that is too large with its fragments expanded, and one whose
// fragments define variables: the parser accepts those, but they are not in the specification.
func checkFragments(document *ast.QueryDocument) *gqlerror.Error {
	for _, f := range document.Fragments {
		if len(f.VariableDefinition) > 0 {
			err := gqlerror.ErrorPosf(f.VariableDefinition[0].Position, "")
			err.Err = &refusal.Error{Code: refusal.ParseFailed,
				Message: "fragments cannot define variables: only operations can"}
			return err
		}
	}
	c := newExpansionCount(document)
	total := c.document(document)
	if s := c.cycle; s != nil {
		err := gqlerror.ErrorPosf(s.Position, "")
		err.Rule = rules.NoFragmentCyclesRule.Name
		err.Err = &refusal.Error{Code: refusal.ValidationFailed,
			Message: refusal.Truncate(fmt.Sprintf("Cannot spread fragment %q within itself.", s.Name),
				refusal.MaxMessage)}
		return err
	}
	if f := c.long; f != nil {
		err := gqlerror.ErrorPosf(f.Position, "")
		err.Err = &refusal.Error{Code: refusal.QueryTooExpensive,
			Message: fmt.Sprintf("an alias must have at most %d characters", MaxAlias)}
		return err
	}
	for _, limit := range []struct {
		have, most int
		of         string
	}{
		{total.size, MaxSpread, "selections and values"},
		{total.depth, MaxDepth, "levels of nested fields"},
		{total.aliases, MaxAliases, "aliases"},
	} {
		if limit.have > limit.most {
			return gqlerror.Wrap(&refusal.Error{Code: refusal.QueryTooExpensive, Message: fmt.Sprintf(
				"with its fragments expanded, the document has %d %s; the limit is %d", limit.have, limit.of,
				limit.most)})
		}
	}
	return nil
}

// expansion is the size of selections with their fragments expanded.
type expansion struct {
	size    int // selections and values
	depth   int // of nested fields
	aliases int
}

// plus returns the size of two selections side by side, at most the largest int32.
func (s expansion) plus(o expansion) expansion {
	return expansion{min(s.size+o.size, math.MaxInt32), max(s.depth, o.depth), min(s.aliases+o.aliases, math.MaxInt32)}
}

// expansionCount counts selections and values with fragments expanded. It walks each
// fragment once, however often it is spread.
type expansionCount struct {
	fragments map[string]*expandedFragment
	cycle     *ast.FragmentSpread // a spread within its own fragment; nil: none
	long      *ast.Field          // a field whose alias is too long; nil: none
}

type expandedFragment struct {
	definition *ast.FragmentDefinition
	state      int // unknown, counting, or counted
	spread     expansion
}

const (
	unknown = iota
	counting
	counted
)

func newExpansionCount(document *ast.QueryDocument) *expansionCount {
	c := &expansionCount{fragments: make(map[string]*expandedFragment, len(document.Fragments))}
	for _, f := range document.Fragments {
		c.fragments[f.Name] = &expandedFragment{definition: f}
	}
	return c
}

// document counts all operations, and all fragments by themselves: validation walks
// those, too, although they are not executed.
func (c *expansionCount) document(document *ast.QueryDocument) expansion {
	var total expansion
	for _, operation := range document.Operations {
		total = total.plus(expansion{size: directivesSize(operation.Directives)})
		total = total.plus(c.selection(operation.SelectionSet))
	}
	for _, f := range document.Fragments {
		alone := c.fragment(f.Name)
		alone.aliases = 0
		total = total.plus(alone)
	}
	return total
}

func (c *expansionCount) selection(set ast.SelectionSet) expansion {
	var total expansion
	for _, selected := range set {
		one := expansion{size: 1}
		switch s := selected.(type) {
		case *ast.Field:
			one.size += argumentsSize(s.Arguments) + directivesSize(s.Directives)
			if s.Alias != s.Name {
				one.aliases = 1
				if len(s.Alias) > MaxAlias {
					c.long = s
				}
			}
			one = one.plus(c.selection(s.SelectionSet))
			one.depth++
		case *ast.InlineFragment:
			one.size += directivesSize(s.Directives)
			one = one.plus(c.selection(s.SelectionSet))
		case *ast.FragmentSpread:
			if f := c.fragments[s.Name]; f != nil && f.state == counting {
				c.cycle = s
			}
			one.size += directivesSize(s.Directives)
			one = one.plus(c.fragment(s.Name))
		}
		total = total.plus(one)
	}
	return total
}

// fragment returns the expanded size of a fragment; zero if it is unknown or being counted.
func (c *expansionCount) fragment(name string) expansion {
	f := c.fragments[name]
	if f == nil {
		return expansion{}
	}
	if f.state == unknown {
		f.state = counting
		f.spread = expansion{size: directivesSize(f.definition.Directives)}.plus(c.selection(f.definition.SelectionSet))
		f.state = counted
	}
	return f.spread
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

// validationRules returns the rules of the specification, with a mergeRule that takes linear rather
// than quadratic time, and with the rules below.
func validationRules() *rules.Rules {
	all := rules.NewDefaultRules()
	all.ReplaceRule(mergeRule.Name, mergeRule.RuleFunc)
	all.ReplaceRule(singleRootFieldRule.Name, singleRootFieldRule.RuleFunc)
	all.ReplaceRule(unusedVariablesRule.Name, unusedVariablesRule.RuleFunc)
	all.AddRule(emptyObjectRule.Name, emptyObjectRule.RuleFunc)
	all.AddRule(int32Rule.Name, int32Rule.RuleFunc)
	all.AddRule(variableDefaultsRule.Name, variableDefaultsRule.RuleFunc)
	all.AddRule(largeIDsRule.Name, largeIDsRule.RuleFunc)
	return all
}

// largeIDsRule refuses nothing: it makes strings of the integers that are IDs, as ValuesOfCorrectType would refuse
// those of more than 64 bits (GraphQL, section 3.5.5). Rules see a value in the order of their names.
var largeIDsRule = core.Rule{
	Name: "LargeIDs",
	RuleFunc: func(observers *core.Events, _ core.AddErrFunc) {
		observers.OnValue(func(_ *core.Walker, value *ast.Value) {
			if value.Kind == ast.IntValue && value.Definition != nil && value.Definition.Name == "ID" {
				value.Kind = ast.StringValue
			}
		})
	},
}

// rulesWithoutSuggestions returns validationRules whose errors do not suggest names of the schema.
// SetDisableSuggestion has the executor replace the other rules with suggestions.
func rulesWithoutSuggestions() *rules.Rules {
	all := validationRules()
	all.ReplaceRule(rules.KnownArgumentNamesRule.Name, rules.KnownArgumentNamesRuleWithoutSuggestions.RuleFunc)
	all.ReplaceRule(rules.KnownTypeNamesRule.Name, rules.KnownTypeNamesRuleWithoutSuggestions.RuleFunc)
	all.ReplaceRule(rules.ValuesOfCorrectTypeRule.Name, rules.ValuesOfCorrectTypeRuleWithoutSuggestions.RuleFunc)
	return all
}

// singleRootFieldRule is "Single Root Field" (GraphQL, section 5.2.3.1). It also counts fields with
// @skip and @include. The rule that it replaces counts two fields with the same name as one.
var singleRootFieldRule = core.Rule{
	Name: rules.SingleFieldSubscriptionsRule.Name,
	RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
		observers.OnOperation(func(w *core.Walker, operation *ast.OperationDefinition) {
			if operation.Operation != ast.Subscription {
				return
			}
			var first *ast.Field
			seen := map[string]bool{}
			var check func(ast.SelectionSet) bool
			check = func(set ast.SelectionSet) bool {
				for _, selected := range set {
					inside := ast.SelectionSet(nil)
					switch s := selected.(type) {
					case *ast.Field:
						if first == nil {
							first = s
						}
						if s.Alias != first.Alias || strings.HasPrefix(s.Name, "__") {
							addError(core.Message(messageSingleRootField), core.At(s.Position))
							return false
						}
					case *ast.InlineFragment:
						inside = s.SelectionSet
					case *ast.FragmentSpread:
						if f := w.Document.Fragments.ForName(s.Name); f != nil && !seen[s.Name] {
							seen[s.Name] = true
							inside = f.SelectionSet
						}
					}
					if !check(inside) {
						return false
					}
				}
				return true
			}
			check(operation.SelectionSet)
		})
	},
}

// unusedVariablesRule is "All Variables Used" (GraphQL, section 5.8.4). The library's also reports the second
// definition of a variable, which is an error of its own.
var unusedVariablesRule = core.Rule{
	Name: rules.NoUnusedVariablesRule.Name,
	RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
		observers.OnOperation(func(_ *core.Walker, operation *ast.OperationDefinition) {
			defined := map[string]bool{}
			for _, v := range operation.VariableDefinitions {
				v.Used = v.Used || defined[v.Variable]
				defined[v.Variable] = true
			}
		})
		rules.NoUnusedVariablesRule.RuleFunc(observers, addError)
	},
}

// emptyObjectRule refuses {} for a type that is not an input object. The library's "Values of Correct
// Type" (GraphQL, section 5.6.1) checks only the members of objects.
var emptyObjectRule = core.Rule{
	Name: "EmptyObjectsAreInputObjects",
	RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
		observers.OnValue(func(_ *core.Walker, v *ast.Value) {
			if v.Kind == ast.ObjectValue && len(v.Children) == 0 && v.Definition != nil &&
				v.Definition.Kind != ast.InputObject {
				addError(core.Message("Expected value of type %q, found {}.", v.ExpectedType), core.At(v.Position))
			}
		})
	},
}

// int32Rule refuses an Int of more than 32 bits (GraphQL, section 3.5.1). The library's "Values of
// Correct Type" accepts 64 bits.
var int32Rule = core.Rule{
	Name: "IntsHave32Bits",
	RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
		observers.OnValue(func(_ *core.Walker, v *ast.Value) {
			if v.Kind != ast.IntValue || v.ExpectedType == nil || v.ExpectedType.NamedType != "Int" {
				return
			}
			if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil && int64(int32(n)) != n {
				addError(core.Message("Int cannot represent non 32-bit signed integer value: %s", v.Raw),
					core.At(v.Position))
			}
		})
	},
}

// variableDefaultsRule refuses nothing. It removes the definitions from the uses of variables, after
// the other rules have read them. A use in a fragment would otherwise have the definition, and the
// default, of the last operation that was validated, whichever is executed. The values of the
// variables already include the defaults.
var variableDefaultsRule = core.Rule{
	Name: "VariableDefaults",
	RuleFunc: func(observers *core.Events, _ core.AddErrFunc) {
		var uses []*ast.Value
		observers.OnValue(func(_ *core.Walker, v *ast.Value) {
			if v.Kind == ast.Variable {
				uses = append(uses, v)
			}
		})
		observers.OnOperation(func(*core.Walker, *ast.OperationDefinition) {
			for _, v := range uses {
				v.VariableDefinition = nil
			}
			uses = nil
		})
	},
}
