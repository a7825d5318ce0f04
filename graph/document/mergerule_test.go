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
		"same field":                   {`{ viewer { id id } }`, ""},
		"same alias of the same field": {`{ viewer { a: id a: id } }`, ""},
		"same alias of two fields": {`{ viewer { a: id a: username } }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"alias equal to another field": {`{ viewer { username: id username } }`,
			`Fields "username" conflict because "id" and "username" are different fields.`},
		"same arguments in another order": {`{ feed(first: 1, after: "x") { __typename } feed(after: "x", first: 1) { __typename } }`, ""},
		"different arguments": {`{ feed(first: 1) { __typename } feed(first: 2) { __typename } }`,
			`Fields "feed" conflict because they have differing arguments.`},
		"additional argument": {`{ feed { __typename } feed(first: 2) { __typename } }`,
			`Fields "feed" conflict because they have differing arguments.`},
		"different argument names": {`{ feed(first: 1) { __typename } feed(after: "1") { __typename } }`,
			`Fields "feed" conflict because they have differing arguments.`},
		"number and string": {`{ feed(first: 1) { __typename } feed(first: "1") { __typename } }`,
			`Fields "feed" conflict because they have differing arguments.`},
		"two variables": {`query($a: Int, $b: Int) { feed(first: $a) { __typename } feed(first: $b) { __typename } }`,
			`Fields "feed" conflict because they have differing arguments.`},
		"same variable": {`query($a: Int) { feed(first: $a) { __typename } feed(first: $a) { __typename } }`, ""},
		"same list":     {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["a", "b"]) { id } }`, ""},
		"list in another order": {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["b", "a"]) { id } }`,
			`Fields "nodes" conflict because they have differing arguments.`},
		"longer list": {`{ nodes(ids: ["a", "b"]) { id } nodes(ids: ["a"]) { id } }`,
			`Fields "nodes" conflict because they have differing arguments.`},
		"object in another order":     {`mutation { likePost(input: {postId: "a", x: 1}) { __typename } likePost(input: {x: 1, postId: "a"}) { __typename } }`, ""},
		"object with another value":   {`mutation { likePost(input: {postId: "a"}) { __typename } likePost(input: {postId: "b"}) { __typename } }`, `Fields "likePost" conflict because they have differing arguments.`},
		"an object with another name": {`mutation { likePost(input: {postId: "a"}) { __typename } likePost(input: {x: "a"}) { __typename } }`, `Fields "likePost" conflict because they have differing arguments.`},
		"the third of three": {`{ viewer { a: id a: id a: username } }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"below the same field": {`{ viewer { a: id } viewer { a: username } }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"below different aliases": {`{ x: viewer { a: id } y: viewer { a: username } }`, ""},
		"in a fragment": {`{ viewer { a: id ...F } } fragment F on User { a: username }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"in two fragments":            {`{ viewer { ...F ...G } } fragment F on User { a: id } fragment G on User { a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"in a fragment of a fragment": {`{ viewer { a: id ...F } } fragment F on User { ...G } fragment G on User { ... on Node { ...H } } fragment H on User { a: username }`, `Fields "a" conflict because "id" and "username" are different fields.`},
		"in one fragment": {`{ viewer { ...F } } fragment F on User { a: id a: username }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"in the second operation": {`query A { viewer { id } } query B { viewer { a: id a: username } }`,
			`Fields "a" conflict because "id" and "username" are different fields.`},
		"of two object types": {`{ node(id: "a") { ... on User { a: username } ... on Post { a: title } } }`, ""},
		"of an object type and an interface": {`{ node(id: "a") { a: id ... on Post { a: title } } }`,
			`Fields "a" conflict because "id" and "title" are different fields.`},
		"of the same interface": {`{ node(id: "a") { a: id ... on Node { a: __typename } } }`,
			`Fields "a" conflict because "id" and "__typename" are different fields.`},
		"different arguments, of two types":    {`{ node(id: "a") { ... on User { posts(first: 1) { __typename } } ... on Post { posts: likes(first: 2) { __typename } } } }`, ""},
		"Int and String, of two types":         {`{ node(id: "a") { ... on User { a: username } ... on Post { a: version } } }`, `Fields "a" conflict because they return conflicting types "String!" and "Int!".`},
		"nullable and non-null, of two types":  {`{ node(id: "a") { ... on User { a: username } ... on Post { a: content } } }`, `Fields "a" conflict because they return conflicting types "String!" and "String".`},
		"list and object, of two types":        {`{ node(id: "a") { ... on User { p: posts { a: edges { __typename } } } ... on Post { p: likes { a: pageInfo { __typename } } } } }`, `Fields "a" conflict because they return conflicting types "[PostEdge!]!" and "PageInfo!".`},
		"object and String, of two types":      {`{ node(id: "a") { ... on User { a: username } ... on Post { a: author { id } } } }`, `Fields "a" conflict because they return conflicting types "String!" and "User!".`},
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
				t.Errorf("got %d errors, the first %q; want %q", len(errs), got, tt.conflict)
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

// For random documents, the rule agrees with the pairwise comparison of the specification. It finds
// every conflict that the rule that it replaces finds; that rule misses some.
func TestMergeRule_AgreesWithPairwiseComparison(t *testing.T) {
	schema := readSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		query := randomDocument(schema, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		got := len(checkRule(t, schema, query, mergeRule)) > 0
		want := len(checkRule(t, schema, query, pairRule)) > 0
		replaced := len(checkRule(t, schema, query, rules.OverlappingFieldsCanBeMergedRule)) > 0
		if got != want || replaced && !got {
			t.Errorf("got conflict %t, want %t (replaced rule: %t): %s", got, want, replaced, query)
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
		t.Errorf("%d of %d documents conflict, want some, but not all", conflicts, total)
	}
}

// pairRule implements FieldsInSetCanMerge and SameResponseShape literally as the specification
// defines them.
var pairRule = core.Rule{Name: "Pairs", RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
	observers.OnOperation(func(w *core.Walker, operation *ast.OperationDefinition) {
		if !fieldsInSetCanMerge(w.Schema, operation.SelectionSet) {
			addError(core.Message("conflict"))
		}
	})
}}

func fieldsInSetCanMerge(s *ast.Schema, set ast.SelectionSet) bool {
	fields := collectFields(set)
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
			if a.ObjectDefinition == b.ObjectDefinition || a.ObjectDefinition.Kind != ast.Object ||
				b.ObjectDefinition.Kind != ast.Object {
				if a.Name != b.Name || argumentText(a) != argumentText(b) ||
					!fieldsInSetCanMerge(s, slices.Concat(a.SelectionSet, b.SelectionSet)) {
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
	fields := collectFields(slices.Concat(a.SelectionSet, b.SelectionSet))
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

// collectFields returns the distinct fields of a set, with its fragments expanded.
func collectFields(set ast.SelectionSet) []*ast.Field {
	var fields []*ast.Field
	for _, selected := range set {
		more := []*ast.Field{}
		switch s := selected.(type) {
		case *ast.Field:
			more = append(more, s)
		case *ast.InlineFragment:
			more = collectFields(s.SelectionSet)
		case *ast.FragmentSpread:
			more = collectFields(s.Definition.SelectionSet)
		}
		for _, f := range more {
			if !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// randomDocument selects few response names, so that they often conflict. It uses all of its
// fragments, and none spreads itself.
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
	query := "{ node(id: 1) " + selection(schema.Types["Node"], 0, 4) + "viewer " +
		selection(schema.Types["User"], 0, 4) + "} "
	for i, kind := range on {
		fmt.Fprintf(&definitions, "fragment F%d on %s %s", i, kind, selection(schema.Types[kind], i+1, 2))
	}
	// Fragments are checked only if an operation spreads them, so each has an operation of its own.
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
