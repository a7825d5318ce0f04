package index

import (
	"encoding/json"
	"strings"
	"testing"

	"byline/store/emulator/internal/sql"
)

func TestTextPolicy_Complete(t *testing.T) {
	for _, one := range []struct{ policy, indexes, refusal string }{
		{`null`, `null`, ""},
		{`{}`, `[]`, ""},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"},{"path":"/b/\"c d\"","language":"fr-FR"}]}`,
			`[{"path":"/b/\"c d\""}]`, ""},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"a"}]}`, `[]`, "contains an invalid Path: a"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/"}]}`, `[]`, "contains an invalid Path: /"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/*"}]}`, `[]`, "contains an invalid Path: /*"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a/?"}]}`, `[]`, "contains an invalid Path: /a/?"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a/[]/b"}]}`, `[]`,
			"contains an invalid Path: /a/[]/b"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/_etag"}]}`, `[]`, "contains an invalid Path: /_etag"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"},{"path":"/a"}]}`, `[]`, "more than once"},
		{`{"defaultLanguage":"en-us","fullTextPaths":[]}`, `[]`,
			`unsupported language en-us. Supported languages are: "en-US"`},
		{`{"fullTextPaths":[{"path":"/a"}]}`, `[]`, "unsupported language ."},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a","language":"xx"}]}`, `[]`,
			"unsupported language xx."},
		{`null`, `[{"path":"/a"}]`, "Full Text Index /a does not match the path specified in the Full Text Policy"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"}]}`, `[{"path":"/b"}]`,
			"Full Text Index /b does not"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"}]}`, `[{"path":"/a"},{"path":"/a"}]`,
			"more than once"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"}]}`, `[{"path":"a"}]`,
			"at index (0) contains invalid path"},
		{`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/a"}]}`, `[{"path":"/a"},{}]`,
			"Missing path in full-text index specification at index (1)"},
	} {
		var texts *TextPolicy
		var p Policy
		if err := json.Unmarshal([]byte(one.policy), &texts); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"fullTextIndexes":`+one.indexes+`}`), &p); err != nil {
			t.Fatal(err)
		}
		switch err := texts.Complete(&p); {
		case (err == nil) != (one.refusal == ""), err != nil && !strings.Contains(err.Error(), one.refusal):
			t.Errorf("%s with indexes %s: %v, want %q", one.policy, one.indexes, err, one.refusal)
		}
		if _, err := New(&p, nil, texts); err != nil {
			t.Errorf("%s with indexes %s, stored by an earlier version: %v", one.policy, one.indexes, err)
		}
	}
}

// A text has the language of its path, of the policy, or English.
func TestIndexes_Text(t *testing.T) {
	p := Policy{FullText: []textIndexPath{{"/a"}}}
	x, err := New(&p, nil, &TextPolicy{DefaultLanguage: "fr-FR", Paths: []textPolicyPath{{"/a", "en-US"}, {"/b", ""}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		words   int // in "the words"
		indexed bool
	}{"a": {1, true}, "b": {2, false}, "c": {1, false}} {
		text := x.Text(sql.Path{name})
		if got := text.Analyzer.Analyze([]byte("the words")).Words; got != want.words || text.Indexed != want.indexed {
			t.Errorf("%s: %d words, indexed: %t, want %+v", name, got, text.Indexed, want)
		}
	}
}
