package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

func TestSpreadSize(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		size  int // of the operations and the fragments
	}{
		"a field":                      {`{ viewer { id } }`, 2},
		"an inline fragment":           {`{ viewer { ... on User { id } } }`, 3},
		"a fragment, and where it is":  {`{ viewer { ...F } } fragment F on User { id username }`, 4 + 2},
		"a fragment in two places":     {`{ a: viewer { ...F } b: viewer { ...F } } fragment F on User { id username }`, 8 + 2},
		"a fragment in a fragment":     {`{ viewer { ...F } } fragment F on User { ...G ...G } fragment G on User { id }`, 6 + 4 + 1},
		"values":                       {`{ nodes(ids: ["a", "b"]) { id } }`, 5},
		"values of objects":            {`mutation { likePost(input: {postId: "a", x: [1]}) { __typename } }`, 6},
		"directives":                   {`query @a { viewer @a(x: 1) { ...F @a ... @a { id } } } fragment F on User @a { id }`, 11 + 2},
		"a fragment that is not there": {`{ viewer { ...F } }`, 2},
		"all operations":               {`query A { ...F } query B { ...F } fragment F on Query { __typename }`, 4 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := parser.ParseQuery(&ast.Source{Input: tt.query})
			if err != nil {
				t.Fatal(err)
			}
			if got := newSpreadCount(document).document(document).size; got != tt.size {
				t.Errorf("%d, want %d", got, tt.size)
			}
		})
	}
}

func TestDocumentsAreBoundedAfterSpreading(t *testing.T) {
	h := deaf(t, Options{})
	deep := func(n int) string { // of fields inside fields, half of them in a fragment
		objects := strings.Repeat("posts { edges { node { author { ", (n-4)/4)
		return `{ viewer { ` + objects + ` ...F } ` + strings.Repeat("} ", n-4) + `} fragment F on User { posts { edges { cursor } } }`
	}
	for name, tt := range map[string]struct {
		query func(n int) string
		most  int // that n may be
		says  string
	}{
		// Three times n, and 4 around it.
		"size": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" id", n) + `}`
		}, (maxSpread - 4) / 3, fmt.Sprintf("%d selections and values; the limit is %d", maxSpread+3, maxSpread)},
		"depth": {func(n int) string { return deep(4 * n) }, maxDepth / 4, fmt.Sprintf("%d levels of nested fields; the limit is %d", maxDepth+4, maxDepth)},
		// Twice n, and 2 around them.
		"aliases": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" a: id", n) + `}`
		}, (maxAliases - 2) / 2, fmt.Sprintf("%d aliases; the limit is %d", maxAliases+2, maxAliases)},
	} {
		t.Run(name, func(t *testing.T) {
			if a := post(t, h, "", tt.query(tt.most), nil); a.code() != "" {
				t.Error(a.body)
			}
			if a := post(t, h, "", tt.query(tt.most+1), nil); a.code() != "QUERY_TOO_EXPENSIVE" || !strings.Contains(a.Errors[0].Message, tt.says) {
				t.Errorf("want %q: %s", tt.says, a.body)
			}
		})
	}
}

// The parser takes variables of fragments, which the specification has not.
func TestFragmentsDefineNoVariables(t *testing.T) {
	a := post(t, deaf(t, Options{}), "", `{ ...F } fragment F($n: Int = 1) on Query { __typename }`, nil)
	if a.code() != "GRAPHQL_PARSE_FAILED" || a.Data != nil || !strings.Contains(a.body, `"column":21`) {
		t.Error(a.body)
	}
}
