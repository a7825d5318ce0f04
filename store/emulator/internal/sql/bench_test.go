package sql

import (
	"fmt"
	"strings"
	"testing"
)

// post is a document of 1 KB, in the order in which the store writes it.
var post = []byte(
	`{"id":"0190c7a2-5b1e-7cc4-9d8e-3f2a1b4c5d6e","type":"post","postId":"0190c7a2-5b1e-7cc4-9d8e-3f2a1b4c5d6e",` +
		`"userId":"0190c7a2-0000-7cc4-9d8e-3f2a1b4c5d6e","userUsername":"ada","title":"On \"engines\" that compute",` +
		`"content":"` + strings.Repeat("The engine weaves algebraic patterns. ", 14) +
		`","commentCount":12,"likeCount":345,` +
		`"creationDate":"2026-01-02T03:04:05.678Z","version":1,"revision":17,` +
		`"_rid":"AbCdEfGhIjK=","_self":"dbs/AbCd==/colls/AbCdEfGh=/docs/AbCdEfGhIjK=/","_etag":"\"0000-0001-0000\"","_ts":1767323045}`)

func keyset(tb testing.TB, date, id string) *Bound {
	q, err := Parse(
		`SELECT * FROM c WHERE c.type = @t AND c.creationDate <= @d AND (c.creationDate < @d OR c.id < @id) ORDER BY c.creationDate DESC, c.id DESC`)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := q.Bind([]Param{{"@t", []byte(`"post"`)}, {"@d", fmt.Appendf(nil, "%q", date)},
		{"@id", fmt.Appendf(nil, "%q", id)}})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestMatches_NoAllocations(t *testing.T) {
	b := keyset(t, "2026-01-02T03:04:05.678Z", "1")
	if ok, err := b.Matches(post); !ok || err != nil {
		t.Fatal("does not match")
	}
	if n := testing.AllocsPerRun(100, func() { b.Matches(post) }); n > 0 {
		t.Errorf("Matches: %v allocations, want 0", n)
	}
	dst := make([]byte, 0, 1024)
	p, err := bind("SELECT c.id, c.title, c.likeCount, c.author.name FROM c", nil)
	if err != nil {
		t.Fatal(err)
	}
	item := p.Evaluator()
	if n := testing.AllocsPerRun(100, func() {
		item.Next(post)
		item.Matches()
		item.HasRow()
		item.Project(dst)
	}); n > 0 {
		t.Errorf("Evaluator: %v allocations, want 0", n)
	}
}

func BenchmarkMatches(b *testing.B) {
	for _, bc := range []struct{ name, date, id string }{
		{"older", "2026-02-02T03:04:05.678Z", "1"},
		{"same date", "2026-01-02T03:04:05.678Z", "1"},
		{"newer", "2025-02-02T03:04:05.678Z", "1"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			q := keyset(b, bc.date, bc.id)
			b.ReportAllocs()
			for b.Loop() {
				q.Matches(post)
			}
		})
	}
	b.Run("OR of 1000", func(b *testing.B) {
		q, err := bind(readMany(1000))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			q.Matches(post)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for _, p := range []Path{{"id"}, {"creationDate"}, {"_ts"}, {"missing"}} {
		b.Run(p[0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Lookup(post, p)
			}
		})
	}
}

func BenchmarkProject(b *testing.B) {
	q, err := bind("SELECT c.id, c.title, c.likeCount, c.creationDate FROM c", nil)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	item := q.Evaluator()
	for b.Loop() {
		item.Next(post)
		item.Project(dst)
	}
}

func BenchmarkParse(b *testing.B) {
	many, _ := readMany(1000)
	for _, bc := range []struct{ name, text string }{
		{"keyset", `SELECT * FROM c WHERE c.type = @t AND c.creationDate <= @d AND (c.creationDate < @d OR c.id < @id) ORDER BY c.creationDate DESC, c.id DESC`},
		{"ReadMany of 1000", many},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(bc.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadMany(b *testing.B) {
	text, params := readMany(1000)
	q, err := Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("bind", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := q.Bind(params); err != nil {
				b.Fatal(err)
			}
		}
	})
	bound, _ := q.Bind(params)
	b.Run("points", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bound.Points(Path{"id"}, Path{"pk"})
		}
	})
}

func BenchmarkBind(b *testing.B) {
	q, err := Parse(
		`SELECT * FROM c WHERE c.type = @t AND c.creationDate <= @d AND (c.creationDate < @d OR c.id < @id)`)
	if err != nil {
		b.Fatal(err)
	}
	params := []Param{{"@t", []byte(`"post"`)}, {"@d", []byte(`"2026-01-02T03:04:05.678Z"`)}, {"@id", []byte(`"1"`)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Bind(params); err != nil {
			b.Fatal(err)
		}
	}
}
