package document

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"
	"pgregory.net/rapid"
)

func TestMergeRule(t *testing.T) {
	schema := readSchema(t)
	for name, tt := range map[string]struct {
		query, conflict string // "" for none
	}{
		"the same field":                       {`{ viewer { id id } }`, ""},
		"the same alias of the same field":     {`{ viewer { a: id a: id } }`, ""},
		"an alias of two fields":               {`{ viewer { a: id a: username } }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"an alias that hides a field":          {`{ viewer { username: id username } }`, `Fields "username" conflict because "id" and "username" are different fields.`},
		"the same arguments in another order":  {`{ feed(first: 1, after: "x") { __typename } feed(after: "x", first: 1) { __typename } }`, ""},
		"other arguments":                      {`{ feed(first: 1) { __typename } feed(first: 2) { __typename } }`, `Fields "feed" conflict because they have differing arguments.`},
		"an argument more":                     {`{ feed { __typename } feed(first: 2) { __typename } }`, `Fields "feed" conflict because they have differing arguments.`},
		"other arguments of as many":           {`{ feed(first: 1) { __typename } feed(after: "1") { __typename } }`, `Fields "feed" conflict because they have differing arguments.`},
		"a number and a text":                  {`{ feed(first: 1) { __typename } feed(first: "1") { __typename } }`, `Fields "feed" conflict because they have differing arguments.`},
		"a variable and another":               {`query($a: Int, $b: Int) { feed(first: $a) { __typename } feed(first: $b) { __typename } }`, `Fields "feed" conflict because they have differing arguments.`},
		"a variable and itself":                {`query($a: Int) { feed(first: $a) { __typename } feed(first: $a) { __typename } }`, ""},
		"the same list":                        {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["a", "b"]) { id } }`, ""},
		"a list in another order":              {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["b", "a"]) { id } }`, `Fields "nodes" conflict because they have differing arguments.`},
		"a longer list":                        {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["a"]) { id } }`, `Fields "nodes" conflict because they have differing arguments.`},
		"an object in another order":           {`mutation { likePost(input: {postId: "a", x: 1}) { __typename } likePost(input: {x: 1, postId: "a"}) { __typename } }`, ""},
		"an object with another value":         {`mutation { likePost(input: {postId: "a"}) { __typename } likePost(input: {postId: "b"}) { __typename } }`, `Fields "likePost" conflict because they have differing arguments.`},
		"an object with another name":          {`mutation { likePost(input: {postId: "a"}) { __typename } likePost(input: {x: "a"}) { __typename } }`, `Fields "likePost" conflict because they have differing arguments.`},
		"the third of three":                   {`{ viewer { a: id a: id a: username } }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"below the same field":                 {`{ viewer { a: id } viewer { a: username } }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"below aliases apart":                  {`{ x: viewer { a: id } y: viewer { a: username } }`, ""},
		"in a fragment":                        {`{ viewer { a: id ...F } } fragment F on User { a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"in two fragments":                     {`{ viewer { ...F ...G } } fragment F on User { a: id } fragment G on User { a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"in a fragment of a fragment":          {`{ viewer { a: id ...F } } fragment F on User { ...G } fragment G on User { ... on Node { ...H } } fragment H on User { a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"in a fragment alone":                  {`{ viewer { ...F } } fragment F on User { a: id a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"of the second operation":              {`query A { viewer { id } } query B { viewer { a: id a: username } }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"of objects of two types":              {`{ node(id: "a") { ... on User { a: username } ... on Post { a: title } } }`, ""},
		"of an object and an interface":        {`{ node(id: "a") { a: id ... on Post { a: title } } }`, `Fields "a" conflict because "id" and "title" are different fields.`},
		"of an interface and itself":           {`{ node(id: "a") { a: id ... on Node { a: __typename } } }`, `Fields "a" conflict because "id" and "__typename" are different fields.`},
		"other arguments, of two types":        {`{ node(id: "a") { ... on User { posts(first: 1) { __typename } } ... on Post { posts: likes(first: 2) { __typename } } } }`, ""},
		"a number and a text, of two types":    {`{ node(id: "a") { ... on User { a: username } ... on Post { a: version } } }`, `Fields "a" conflict because they return conflicting types "String!" and "Int!".`},
		"text that may be null, of two types":  {`{ node(id: "a") { ... on User { a: username } ... on Post { a: content } } }`, `Fields "a" conflict because they return conflicting types "String!" and "String".`},
		"a list and an object, of two types":   {`{ node(id: "a") { ... on User { p: posts { a: edges { __typename } } } ... on Post { p: likes { a: pageInfo { __typename } } } } }`, `Fields "a" conflict because they return conflicting types "[PostEdge!]!" and "PageInfo!".`},
		"an object and a text, of two types":   {`{ node(id: "a") { ... on User { a: username } ... on Post { a: author { id } } } }`, `Fields "a" conflict because they return conflicting types "String!" and "User!".`},
		"two objects, of two types":            {`{ node(id: "a") { ... on Like { a: user { id } } ... on Post { a: author { id } } } }`, ""},
		"below objects of two types":           {`{ node(id: "a") { ... on Like { a: user { b: id } } ... on Post { a: author { b: username } } } }`, `Fields "b" conflict because they return conflicting types "ID!" and "String!".`},
		"below objects of two types, the same": {`{ node(id: "a") { ... on Like { a: user { b: username } } ... on Post { a: author { b: username } } } }`, ""},
		"below two types and their interface":  {`{ node(id: "a") { ... on Like { p: post { b: title } } ... on Comment { p: post { b: excerpt } } } }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs := checkRule(t, schema, tt.query, mergeRule)
			got := ""
			if len(errs) > 0 {
				got, _, _ = strings.Cut(errs[0].Message, " Use different")
			}
			if got != tt.conflict || len(errs) > 1 {
				t.Errorf("%q, want %q (%d)", got, tt.conflict, len(errs))
			}
		})
	}
}

func checkRule(t rapid.TB, schema *ast.Schema, query string, rule core.Rule) gqlerror.List {
	t.Helper()
	document, err := parser.ParseQuery(&ast.Source{Input: query})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return validator.ValidateWithRules(schema, document, rules.NewRules(rule))
}

// Random documents: the rule agrees with comparing in pairs, as the specification
// puts it. Whatever the rule that it replaces finds, it finds, too; that one
// overlooks a few.
func TestMergeRule_AgreesWithPairwiseComparison(t *testing.T) {
	schema := readSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		query := randomDocument(schema, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		got := len(checkRule(t, schema, query, mergeRule)) > 0
		want := len(checkRule(t, schema, query, pairRule)) > 0
		replaced := len(checkRule(t, schema, query, rules.OverlappingFieldsCanBeMergedRule)) > 0
		if got != want || replaced && !got {
			t.Errorf("conflict %t, in pairs %t, by the rule it replaces %t: %s", got, want, replaced, query)
		}
	})
	const total = 300
	conflicts := 0
	for seed := range uint64(total) {
		if len(checkRule(t, schema, randomDocument(schema, rand.New(rand.NewPCG(seed, 0))), mergeRule)) > 0 {
			conflicts++
		}
	}
	if conflicts == 0 || conflicts == total {
		t.Errorf("%d of %d documents conflict", conflicts, total)
	}
}

// pairRule is FieldsInSetCanMerge and SameResponseShape of the specification, word
// for word.
var pairRule = core.Rule{Name: "Pairs", RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
	observers.OnOperation(func(w *core.Walker, operation *ast.OperationDefinition) {
		if !fieldsInSetCanMerge(w.Schema, operation.SelectionSet) {
			addError(core.Message("conflict"))
		}
	})
}}

func fieldsInSetCanMerge(s *ast.Schema, set ast.SelectionSet) bool {
	fields := collected(set)
	for i, a := range fields {
		if !fieldsInSetCanMerge(s, a.SelectionSet) {
			return false
		}
		for _, b := range fields[i+1:] {
			if a.Alias != b.Alias {
				continue
			}
			if !sameResponseShape(s, a, b) {
				return false
			}
			if a.ObjectDefinition == b.ObjectDefinition || a.ObjectDefinition.Kind != ast.Object || b.ObjectDefinition.Kind != ast.Object {
				if a.Name != b.Name || argumentText(a) != argumentText(b) || !fieldsInSetCanMerge(s, slices.Concat(a.SelectionSet, b.SelectionSet)) {
					return false
				}
			}
		}
	}
	return true
}

func sameResponseShape(s *ast.Schema, a, b *ast.Field) bool {
	x, y := a.Definition.Type, b.Definition.Type
	if strings.Trim(x.String(), "[]!") != strings.Trim(y.String(), "[]!") {
		if !s.Types[x.Name()].IsCompositeType() || !s.Types[y.Name()].IsCompositeType() {
			return false
		}
	}
	if strings.ReplaceAll(x.String(), x.Name(), "") != strings.ReplaceAll(y.String(), y.Name(), "") {
		return false
	}
	fields := collected(slices.Concat(a.SelectionSet, b.SelectionSet))
	for i, a := range fields {
		for _, b := range fields[i+1:] {
			if a.Alias == b.Alias && !sameResponseShape(s, a, b) {
				return false
			}
		}
	}
	return true
}

func argumentText(f *ast.Field) string {
	text := ""
	for _, a := range f.Arguments {
		text += a.Name + ":" + a.Value.String() + ","
	}
	return text
}

// collected are the distinct fields of a set, with its fragments spread.
func collected(set ast.SelectionSet) []*ast.Field {
	var fields []*ast.Field
	for _, selected := range set {
		more := []*ast.Field{}
		switch s := selected.(type) {
		case *ast.Field:
			more = append(more, s)
		case *ast.InlineFragment:
			more = collected(s.SelectionSet)
		case *ast.FragmentSpread:
			more = collected(s.Definition.SelectionSet)
		}
		for _, f := range more {
			if !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// randomDocument selects few response names, so that they often meet. Its fragments
// are all used, and none is within itself.
func randomDocument(schema *ast.Schema, r *rand.Rand) string {
	on := []string{"User", "Post", "Node", "Comment", "Like", "User", "Post"}
	var definitions strings.Builder
	var selection func(parent *ast.Definition, next, depth int) string
	selection = func(parent *ast.Definition, next, depth int) string {
		var b strings.Builder
		b.WriteString("{ __typename ")
		for range 1 + r.IntN(3) {
			switch {
			case r.IntN(4) == 0 && depth > 0:
				kind := on[r.IntN(len(on))]
				b.WriteString("... on " + kind + " " + selection(schema.Types[kind], next, depth-1))
				continue
			case r.IntN(4) == 0 && next < len(on):
				fmt.Fprintf(&b, "...F%d ", next+r.IntN(len(on)-next))
				continue
			}
			f := parent.Fields[r.IntN(len(parent.Fields))]
			inside := schema.Types[f.Type.Name()]
			if strings.HasPrefix(f.Name, "__") || inside.IsCompositeType() && depth == 0 {
				continue
			}
			b.WriteString([]string{"", "", "", "a: ", "b: "}[r.IntN(5)] + f.Name)
			if f.Arguments.ForName("first") != nil && r.IntN(3) == 0 {
				fmt.Fprintf(&b, "(first: %d)", 1+r.IntN(2))
			}
			b.WriteString(" ")
			if inside.IsCompositeType() {
				b.WriteString(selection(inside, next, depth-1))
			}
		}
		return b.String() + "} "
	}
	query := "{ node(id: 1) " + selection(schema.Types["Node"], 0, 4) + "viewer " + selection(schema.Types["User"], 0, 4) + "} "
	for i, kind := range on {
		fmt.Fprintf(&definitions, "fragment F%d on %s %s", i, kind, selection(schema.Types[kind], i+1, 2))
	}
	// A fragment that no operation spreads is not checked, so all are, apart from each other.
	var use strings.Builder
	for i := range on {
		fmt.Fprintf(&use, "query Q%d { node(id: 1) { ...F%d } } ", i, i)
	}
	return "query Q " + query + use.String() + definitions.String()
}

func readSchema(t testing.TB) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile("../../schema.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	return gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})
}
