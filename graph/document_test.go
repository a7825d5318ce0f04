package graph

import (
	"fmt"
	"strings"
	"testing"

	"byline/graph/document"
)

func TestDocument_LimitsApplyAfterExpansion(t *testing.T) {
	h := newTestHandler(t, Options{})
	deep := func(n int) string { // n levels of fields, the last ones in a fragment
		objects := strings.Repeat("posts { edges { node { author { ", (n-4)/4)
		return `{ viewer { ` + objects + ` ...F } ` + strings.Repeat("} ", n-4) + `} fragment F on User { posts { edges { cursor } } }`
	}
	for name, tt := range map[string]struct {
		query func(n int) string
		most  int // the largest n that is accepted
		says  string
	}{
		// 3n + 4 selections.
		"size": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" id", n) + `}`
		}, (document.MaxSpread - 4) / 3, fmt.Sprintf("%d selections and values; the limit is %d", document.MaxSpread+3, document.MaxSpread)},
		"depth": {func(n int) string { return deep(4 * n) }, document.MaxDepth / 4, fmt.Sprintf("%d levels of nested fields; the limit is %d", document.MaxDepth+4, document.MaxDepth)},
		// 2n + 2 aliases.
		"aliases": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" a: id", n) + `}`
		}, (document.MaxAliases - 2) / 2, fmt.Sprintf("%d aliases; the limit is %d", document.MaxAliases+2, document.MaxAliases)},
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

// The parser accepts variables of fragments, which the specification does not allow.
func TestDocument_FragmentVariablesAreRefused(t *testing.T) {
	a := post(t, newTestHandler(t, Options{}), "", `{ ...F } fragment F($n: Int = 1) on Query { __typename }`, nil)
	if a.code() != "GRAPHQL_PARSE_FAILED" || a.Data != nil || !strings.Contains(a.body, `"column":21`) {
		t.Error(a.body)
	}
}
