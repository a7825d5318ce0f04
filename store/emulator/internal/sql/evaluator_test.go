package sql

import (
	"strings"
	"testing"
)

// project returns the row of one item.
func project(b *Bound, dst, doc []byte) (out []byte, ok bool, err error) {
	item := b.Evaluator()
	item.Next(doc)
	return item.Project(dst)
}

func hasRow(b *Bound, doc []byte) (bool, error) {
	item := b.Evaluator()
	item.Next(doc)
	return item.HasRow()
}

// TestEvaluator: the results do not depend on earlier items or calls, even after an item that exceeded a limit.
func TestEvaluator(t *testing.T) {
	b, err := bind(
		"SELECT VALUE REPLACE(c.a, '0', c.n) FROM c WHERE c.a != 'x' AND IS_DEFINED(c.n) AND NOT IS_DEFINED(c.z)", nil)
	if err != nil {
		t.Fatal(err)
	}
	item := b.Evaluator()
	for range 2 {
		for _, one := range []struct {
			doc     string
			matches bool
			row     string // "" if no row
			fails   bool
		}{
			{`{"n":"1","a":"b0"}`, true, `"b1"`, false},
			{`{"z":0,"n":"","a":"0c"}`, false, `"c"`, false},
			{`{"a":"` + strings.Repeat("0", 2000) + `","n":"` + strings.Repeat("n", 2000) + `"}`, true, "", true},
			{`{"n":"3"}`, false, "", false},
			{`{"a":"x","n":"1"}`, false, `"x"`, false},
		} {
			item.Next([]byte(one.doc))
			if ok, err := item.Matches(); ok != one.matches || err != nil {
				t.Errorf("%.80s: matches %v, %v", one.doc, ok, err)
			}
			if !one.fails {
				if ok, err := item.HasRow(); ok != (one.row != "") || err != nil {
					t.Errorf("%.80s: has a row %v, %v", one.doc, ok, err)
				}
			}
			if row, ok, err := item.Project([]byte("-")); string(row) != "-"+one.row || ok != (one.row != "") ||
				(err != nil) != one.fails {
				t.Errorf("%.80s: %.80s, %v, %v", one.doc, row, ok, err)
			}
		}
	}
}
