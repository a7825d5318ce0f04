package document

import (
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

func TestExpandedSize(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		size  int // of the operations plus the fragments
	}{
		"a field":            {`{ viewer { id } }`, 2},
		"an inline fragment": {`{ viewer { ... on User { id } } }`, 3},
		"a fragment":         {`{ viewer { ...F } } fragment F on User { id username }`, 4 + 2},
		"a fragment in two places": {`{ a: viewer { ...F } b: viewer { ...F } } fragment F on User { id username }`,
			8 + 2},
		"a fragment in a fragment": {`{ viewer { ...F } } fragment F on User { ...G ...G } fragment G on User { id }`,
			6 + 4 + 1},
		"values":            {`{ nodes(ids: ["a", "b"]) { id } }`, 5},
		"values of objects": {`mutation { likePost(input: {postId: "a", x: [1]}) { __typename } }`, 6},
		"directives": {`query @a { viewer @a(x: 1) { ...F @a ... @a { id } } } fragment F on User @a { id }`,
			11 + 2},
		"an unknown fragment": {`{ viewer { ...F } }`, 2},
		"all operations":      {`query A { ...F } query B { ...F } fragment F on Query { __typename }`, 4 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := parser.ParseQuery(&ast.Source{Input: tt.query})
			if err != nil {
				t.Fatal(err)
			}
			if got := newExpansionCount(document).document(document).size; got != tt.size {
				t.Errorf("expanded size %d, want %d", got, tt.size)
			}
		})
	}
}
