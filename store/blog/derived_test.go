package blog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog/markdown"
)

func TestDerived(t *testing.T) {
	type derivation struct {
		title, excerpt string
		minutes        int32
	}
	long := strings.Repeat("word ", 500)
	for name, tt := range map[string]struct {
		derived  *Derived
		rendered int
	}{
		"cached -> computed once for each text": {&Derived{}, 2},
		"not cached -> computed each time":      {nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := 0
			derive := func(p *Post) derivation {
				title, _, _ := strings.Cut(p.Slug(), "-")
				excerpt, err := p.Excerpt(func(source string) (markdown.HTML, error) {
					rendered++
					return markdown.Show(t.Context(), source)
				})
				if err != nil {
					t.Error(err)
				}
				excerpt, _, _ = strings.Cut(excerpt, " ")
				return derivation{title, excerpt, p.Minutes()}
			}
			post := &Post{ID: "id", Title: "first", Content: "*first* text", Derived: tt.derived}
			edited := *post
			edited.Title, edited.Content = "second", "*second* "+long
			got := []derivation{derive(post), derive(post), derive(&edited), derive(&edited)}
			first, second := derivation{"first", "first", 1}, derivation{"second", "second", 2}
			if diff := cmp.Diff([]derivation{first, first, second, second}, got, cmp.AllowUnexported(derivation{})); diff != "" {
				t.Error(diff)
			}
			if rendered != tt.rendered {
				t.Errorf("rendered %d times, want %d", rendered, tt.rendered)
			}
		})
	}
}
