package sql

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: Parse, Bind and evaluation never panic; error positions are within the text; rows are JSON.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "SELECT ") {
				f.Add(line)
			} else if len(line) > 0 && len(line) < 60 && !strings.ContainsAny(line[:1], "#{@-") {
				f.Add("SELECT VALUE " + line + " FROM c")
			}
		}
	}
	docs := [][]byte{
		[]byte(`{"id":"1","n":5,"s":"h\u00e9llo","a":[1,{"k":null}],"o":{"x":true},"x":1e400}`),
		[]byte(`{"n":"5","s":"","a":{},"type":"post"}`),
	}
	f.Fuzz(func(t *testing.T, text string) {
		within := func(err error) {
			e, ok := err.(*Error)
			if !ok || e.Pos < 0 || e.Pos > e.End || e.End > len(text) || e.Message == "" {
				t.Fatalf("%q: error %#v", text, err)
			}
		}
		ParseCondition(text)
		q, err := Parse(text)
		if err != nil {
			within(err)
			return
		}
		var params []Param
		for _, p := range q.params {
			params = append(params, Param{p.name, []byte("1")})
		}
		b, err := q.Bind(params)
		if err != nil {
			within(err)
			return
		}
		var paths []Path
		for _, p := range b.Paths() {
			paths = append(paths, p)
			b.Equal(p)
			b.Range(p)
			b.Points(p)
		}
		b.Points(paths...)
		b.Covered(paths, nil)
		check := func(row []byte) {
			if !json.Valid(row) {
				t.Fatalf("%q: row %s", text, row)
			}
		}
		run := func(err error) {
			if err != nil {
				within(err)
			}
		}
		if b.Aggregates() {
			a := b.NewAggregation()
			for _, doc := range docs {
				ok, err := b.Matches(doc)
				if run(err); ok {
					run(a.Add(doc, nil))
				}
			}
			run(a.Rows(context.Background(), nil, func(row, _ []byte) bool {
				check(row)
				return true
			}))
			return
		}
		for _, doc := range docs {
			_, err := b.Matches(doc)
			run(err)
			has, failed := hasRow(b, doc)
			run(failed)
			row, ok, err := project(b, nil, doc)
			if run(err); ok {
				check(row)
			}
			if err == nil && failed == nil && ok != has {
				t.Fatalf("%q: row %s, but HasRow %v", text, row, has)
			}
		}
	})
}
