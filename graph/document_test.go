package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"byline/graph/document"
)

func TestDocument_LimitsApplyAfterExpansion(t *testing.T) {
	h := newTestHandler(t, Options{})
	deep := func(n int) string { // n levels of fields, the last ones in a fragment
		objects := strings.Repeat("posts { edges { node { author { ", (n-4)/4)
		return `{ viewer { ` + objects + ` ...F } ` + strings.Repeat("} ", n-4) +
			`} fragment F on User { posts { edges { cursor } } }`
	}
	for name, tt := range map[string]struct {
		query func(n int) string
		most  int // the largest n that is accepted
		says  string
	}{
		// 3n + 4 selections.
		"size": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" id", n) + `}`
		}, (document.MaxSpread - 4) / 3,
			fmt.Sprintf("%d selections and values; the limit is %d", document.MaxSpread+3, document.MaxSpread)},
		"depth": {func(n int) string {
			return deep(4 * n)
		}, document.MaxDepth / 4,
			fmt.Sprintf("%d levels of nested fields; the limit is %d", document.MaxDepth+4, document.MaxDepth)},
		// 2n + 2 aliases.
		"aliases": {func(n int) string {
			return `{ a: viewer { ...F } b: viewer { ...F } } fragment F on User {` + strings.Repeat(" a: id", n) + `}`
		}, (document.MaxAliases - 2) / 2,
			fmt.Sprintf("%d aliases; the limit is %d", document.MaxAliases+2, document.MaxAliases)},
	} {
		t.Run(name, func(t *testing.T) {
			if a := post(t, h, "", tt.query(tt.most), nil); a.code() != "" {
				t.Error(a.body)
			}
			if a := post(t, h, "", tt.query(tt.most+1), nil); a.code() != "QUERY_TOO_EXPENSIVE" ||
				!strings.Contains(a.Errors[0].Message, tt.says) {
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

// A document has descriptions and braced escapes as of September 2025.
func TestDocument_September2025(t *testing.T) {
	b := smallBlog(t, Options{})
	a := post(t, b, "demo:ada", `"A mutation" mutation M(
		"A variable" $title: String!
		"""
		Another
		"""
		$n: Int = 1
	) { createPost(input: {title: $title, content: "\u{1F600} \ud83d\ude00 \u{41}\u0042"}) { post { ...P comments(first: $n) { edges { cursor } } } } }
	"""A "fragment\"""""" fragment P on Post { title content }`, map[string]any{"title": "Described"})
	if want := `{"createPost":{"post":{"title":"Described","content":"😀 😀 AB","comments":{"edges":[]}}}}`; string(
		a.Data) != want {
		t.Errorf("%s\nwant data %s", a.body, want)
	}
}

// Errors say what is wrong with the document, and where: the line and column at which a token begins, in characters.
func TestDocument_ErrorLocations(t *testing.T) {
	development, production := newTestHandler(t, Options{Development: true}), newTestHandler(t, Options{})
	const after = "Unterminated string."
	for query, want := range map[string]string{
		// Syntax.
		"{ a(b: \"c }":                                    "1:12 " + after,
		"{ a(b: \"c\n\") }":                               "1:10 " + after,
		"{\r\n  a(b: \"\"\"c\r\n}":                        "3:2 " + after,
		"{ a(b: \"é\\q\") }":                              `1:10 Invalid character escape sequence: \q.`,
		"{ a(b: \"\\é\") }":                               `1:9 Invalid character escape sequence: \é.`,
		"{ a(b: \"\\u12é4\") }":                           `1:9 Invalid character escape sequence: \u12é.`,
		"{ a(b: \"\\u123é\") }":                           `1:9 Invalid character escape sequence: \u123.`,
		"{ a(b: \"\\u{110000}\") }":                       `1:9 Invalid character escape sequence: \u{110000}.`,
		"{ a(b: \"\\u{d83d}\") }":                         `1:9 Invalid character escape sequence: \u{d83d}.`,
		"{ a(b: \"é \\ud83d\") }":                         `1:11 invalid \u escape: unpaired surrogate`,
		"{ a(b: \"\"\"\\ud83d\n\"\"\", c: \"\\ude00\") }": `2:10 invalid \u escape: unpaired surrogate`,
		"{ a(b: \"c\x01\") }":                             `1:10 Invalid character within String: "\u0001".`,
		"{ a(b: 'c') }":                                   `1:8 Unexpected single quote character ('), did you mean to use a double quote (")?`,
		"{ a(b: 01) }":                                    `1:9 Invalid number, unexpected digit after 0: "1".`,
		"{ a(b: 1.) }":                                    `1:10 Invalid number, expected digit but got: ")".`,
		"{ a(b: -é) }":                                    `1:9 Invalid number, expected digit but got: "é".`,
		"{ a é }":                                         `1:5 Cannot parse the unexpected character "é".`,
		"é":                                               `1:1 Cannot parse the unexpected character "é".`,
		"{ a \x00 }":                                      `1:5 Cannot contain the invalid character "\u0000"`,
		"{ a ? }":                                         `1:5 Cannot parse the unexpected character "?".`,
		"{ a(b: ?) }":                                     `1:8 Cannot parse the unexpected character "?".`,
		"query ?":                                         `1:7 Cannot parse the unexpected character "?".`,
		"query Q($a: ?) { a }":                            `1:13 Cannot parse the unexpected character "?".`,
		"{\r\n  a\r\n  ?\r\n}":                            `3:3 Cannot parse the unexpected character "?".`,
		"{ a ":                                            "1:5 Expected Name, found <EOF>",
		"{ a \"b\" }":                                     "1:5 Expected Name, found String",
		"{\r\n  a \"\"\"b\r\n\r\n\"\"\" }":                "2:5 Expected Name, found BlockString",
		"{ a @\"b\" }":                                    "1:6 Expected Name, found String",
		"\"a\"\r\n\"b\"":                                  `2:1 Unexpected String "b"`,
		"\"a\" { a }":                                     `1:1 Unexpected String "a"`,
		"\r\n\r\n  }":                                     "3:3 Unexpected }",
		"# é\r\n  }":                                      "2:3 Unexpected }",
		"\r  }":                                           "2:3 Unexpected }",
		"{ a(b: \"\"\"é\r\n\r\n  😀\"\"\", \"c\") }": `3:9 Expected Name, found String`,
		// Validation.
		"{\r\n  feed(first: \"a\") { edges { cursor } }\r\n}":                `2:15 Int cannot represent non-integer value: "a"`,
		"{\r\n  feed(first: \"\"\"a\r\n  b\"\"\") { edges { cursor } }\r\n}": `2:15 Int cannot represent non-integer value: "a\n  b"`,
		"{ nodes(ids: [\"a\", {}, true]) { id } }":                           `1:20 Expected value of type "ID!", found {}.; 1:24 ID cannot represent a non-string and non-integer value: true`,
		"{ feed(first: 1.0) { edges { cursor } } }":                          `1:15 Int cannot represent non-integer value: 1.0`,
		"{ feed(first: 2147483648) { edges { cursor } } }":                   `1:15 Int cannot represent non 32-bit signed integer value: 2147483648`,
		"{\r\n\r\n  viewer\r\n  { nothing }\r\n}":                            `4:5 Cannot query field "nothing" on type "User".`,
		"{ viewer { id @nope } }":                                            `1:15 Unknown directive "@nope".`,
		"{ viewer { ... @nope { id } } }":                                    `1:16 Unknown directive "@nope".`,
		"{ viewer { ...Nope } }":                                             `1:12 Unknown fragment "Nope".`,
		"{ viewer { ... on Post { id } } }":                                  `1:12 Fragment cannot be spread here as objects of type "User" can never be of type "Post".`,
		"{ ...F } fragment F on Query {\r\n  ...F\r\n}":                      `2:3 Cannot spread fragment "F" within itself.`,
		"query($a: Int, $a: Int) { feed(first: $a) { edges { cursor } } }":   `1:16 There can be only one variable named "$a".`,
		"query($a: Int, $a: Int) { __typename }":                             `1:16 There can be only one variable named "$a".; 1:7 Variable "$a" is never used.`,
		"query($a: Int, $b: Int) { feed(first: $a) { edges { cursor } } }":   `1:16 Variable "$b" is never used.`,
		"\"a\"\r\nquery Q { __typename }\r\n\"b\"\r\nquery Q { __typename }": `4:1 There can be only one operation named "Q".`,
	} {
		for _, h := range []http.Handler{development, production} {
			a := post(t, h, "", query, nil)
			var response struct {
				Errors []struct {
					Message   string
					Locations []struct{ Line, Column int }
				}
			}
			if err := json.Unmarshal([]byte(a.body), &response); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range response.Errors {
				for _, at := range e.Locations {
					got = append(got, fmt.Sprintf("%d:%d %s", at.Line, at.Column, e.Message))
				}
			}
			slices.Sort(got)
			if strings.Join(got, "; ") != want || len(got) != len(response.Errors) {
				t.Errorf("%q:\n got %s\nwant %s", query, strings.Join(got, "; "), want)
			}
		}
	}
}

// Errors of execution, too, have the lines and columns of the client's text.
func TestExecutionError_AfterCRLF(t *testing.T) {
	a := post(t, newTestHandler(t, Options{}), "", "{\r\n  node(id: \"x\") { id }\r\n}", nil)
	if a.code() != "BAD_USER_INPUT" || !strings.Contains(a.body, `"locations":[{"line":2,"column":3}]`) {
		t.Error(a.body)
	}
}
