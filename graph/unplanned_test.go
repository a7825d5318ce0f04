package graph

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

// unplannedHandler makes gqlgen's executor, not a compiled plan, resolve every operation. It appends a skipped field to
// each operation, since no plan covers directives. The response is the same, with the same positions in errors.
type unplannedHandler struct{ http.Handler }

func (h unplannedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var params map[string]json.RawMessage
	var query string
	if err == nil && json.Unmarshal(body, &params) == nil && json.Unmarshal(params["query"], &query) == nil {
		params["query"] = appendJSON(nil, withoutPlans(query))
		body = appendJSON(nil, params)
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	h.Handler.ServeHTTP(w, r)
}

// withoutPlans adds the field to the operations of a document.
func withoutPlans(query string) string {
	tokens, text := lexer.New(&ast.Source{Input: query}), []rune(query)
	var ends []int // of the selection sets of operations
	depth, fragment := 0, false
	for {
		token, err := tokens.ReadToken()
		if err != nil {
			return query // its error is the same with plans
		}
		switch token.Kind {
		case lexer.EOF:
			for _, end := range ends {
				text = append(text[:end:end], append([]rune(" __typename @include(if: false) "), text[end:]...)...)
			}
			return string(text)
		case lexer.Name:
			fragment = fragment || depth == 0 && token.Value == "fragment"
		case lexer.BraceL, lexer.ParenL:
			depth++
		case lexer.BraceR, lexer.ParenR:
			if depth--; depth == 0 && token.Kind == lexer.BraceR {
				if !fragment {
					ends = append([]int{token.Pos.Start}, ends...) // the last first
				}
				fragment = false
			}
		}
	}
}

func TestWithoutPlans(t *testing.T) {
	for query, want := range map[string]string{
		`{ feed { edges { cursor } } }`:                     `{ feed { edges { cursor } }  __typename @include(if: false) }`,
		`query Q($v: X = {a: "}"}) {a} fragment F on T {b}`: `query Q($v: X = {a: "}"}) {a __typename @include(if: false) } fragment F on T {b}`,
		`query A {a(b: "ü")} mutation B {c}`:                `query A {a(b: "ü") __typename @include(if: false) } mutation B {c __typename @include(if: false) }`,
		`{ "`:                                               `{ "`,
	} {
		if got := withoutPlans(query); got != want {
			t.Errorf("%s becomes %s, want %s", query, got, want)
		}
	}
}
