package index

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
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

// SizeOf returns what a write counts, as far as MaxIndexed.
func TestWriter_SizeOf(t *testing.T) {
	p := Policy{Mode: "consistent", Included: []indexPath{{Path: "/*"}}, FullText: []textIndexPath{{"/t"}, {"/none"}}}
	x, err := New(&p, nil, &TextPolicy{DefaultLanguage: "en-US", Paths: []textPolicyPath{{"/t", ""}, {"/none", ""}}})
	if err != nil {
		t.Fatal(err)
	}
	var elements []string
	for range MaxIndexed / 1000 {
		elements = append(elements, "1")
	}
	for name, tags := range map[string]string{"few entries": "1", "many entries": strings.Join(elements, ",")} {
		doc := []byte(`{"t":"red wine ` + strings.Repeat("and more ", 500) + `","list":[` + tags + `,[2],{}]}`)
		w := Writer{Batch: new(pebble.Batch), Indexes: &x, Address: bytes.Repeat([]byte("a"), 1000), ID: "id",
			Scratch: new(layout.Scratch), stored: true}
		rec := layout.Record{Doc: doc, Client: len(doc)}
		w.values(nil, &rec)
		got := w.SizeOf(&rec)
		if both := min(got, w.Size); w.err != nil || got != w.Size && both <= MaxIndexed ||
			both > MaxIndexed != (name == "many entries") {
			t.Errorf("%s: %d bytes, want %d: %v", name, got, w.Size, w.err)
		}
	}
}
