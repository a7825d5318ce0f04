package search

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
)

func TestNewItem(t *testing.T) {
	p := &blog.Post{ID: "p", Title: " Two\twords ", Content: "# Head\n\nSome *plain* [text](https://example.com/x)" +
		" &amp; `code`\n\n```go\nfunc main() {}\n```\n\n| a | b |\n|---|---|\n| c | d |\n\n![a cat](/cat.png)",
		Tags: []string{"Go", "Café Bar"}, CreatedAt: "2026-11-29T10:00:00.000Z", Version: 3}
	p.UserID = "u"
	want := Item{Envelope: blog.Envelope{Type: "post"}, ID: "p", Decade: "2020s", AuthorID: "u",
		CreatedAt: p.CreatedAt, Version: 3, Tags: []string{"go", "café-bar"},
		Text: "Head Some plain text & code func main() {} a b c d a cat\n\nTwo words\nGo, Café Bar"}
	if d := cmp.Diff(want, NewItem(p)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Item{Envelope: blog.Envelope{Type: "deletedPost", Deleted: true, TTL: 24 * 60 * 60}, ID: "p",
		Decade: "2020s"}, NewTombstone(p)); d != "" {
		t.Error(d)
	}
}

func TestNewItem_Long(t *testing.T) {
	p := &blog.Post{Title: "The title", Content: strings.Repeat("🙂 ", blog.MaxContent/2)}
	if got := NewItem(p).Text; !strings.HasSuffix(got, "🙂\n\nThe title\n") || len(got) < 5*blog.MaxContent/2 {
		t.Errorf("%d bytes", len(got))
	}
	p.Content += p.Content + p.Content // of another program
	if got := NewItem(p).Text; len(got) > maxText || len(got) < maxText-100 || !strings.HasSuffix(got, "\n\nThe title\n") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestDecades(t *testing.T) {
	if d := cmp.Diff([]string{"2020s", "2010s", "1990s"},
		Decades([]string{"2026-11", "2020-01", "2019-12", "1999-01"})); d != "" {
		t.Error(d)
	}
}
