package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/store"
)

// BenchmarkFieldCPU evaluates every field of the lists' types with as many aliases as a document may have, on the
// largest pages, by plans and by the executor: ratio is the CPU time, compared to that of a plain field. It is at most
// 3, and 6 in the executor of gqlgen, which starts a goroutine for each field that has a resolver. Texts have a price
// by their bytes, and no bound. A document that is refused before it is executed has no row.
//
//	go test -run '^$' -bench FieldCPU ./graph
func BenchmarkFieldCPU(b *testing.B) {
	bounds := map[string]float64{"plan": 3, "executor": 6}
	schema := readSchema(b)
	blog, pages := fieldPages(b)
	for _, page := range pages {
		for _, directive := range []string{"", " @include(if: true)"} {
			by := "plan"
			if directive != "" {
				by = "executor"
			}
			plain := page.aliased(page.plain, directive)
			for _, field := range page.fields(schema) {
				if by == "plan" && page.typ != "Post" && strings.HasPrefix(field, "post ") {
					continue // no plan has it
				}
				document := page.aliased(field, directive)
				if _, code := blog.evaluate(b, document); code != "" {
					if code != "QUERY_TOO_EXPENSIVE" {
						b.Errorf("%s.%s: %s", page.typ, field, code)
					}
					continue
				}
				b.Run(page.name+"."+field+"/"+by, func(b *testing.B) {
					var took, of time.Duration
					for b.Loop() {
						t, _ := blog.evaluate(b, document)
						p, _ := blog.evaluate(b, plain)
						took, of = took+t, of+p
					}
					ratio := took.Seconds() / of.Seconds()
					b.ReportMetric(ratio, "ratio")
					if ratio > bounds[by] && !strings.HasPrefix(field, "content") && !testing.Short() {
						b.Errorf("%.1f times the CPU of %s, want at most %v", ratio, page.plain, bounds[by])
					}
				})
			}
		}
	}
}

// fieldPage is a page of objects of a type.
type fieldPage struct {
	name, typ, plain string
	document         string // with %s for the selections on an object
}

// fieldPages returns a blog, and its largest pages.
func fieldPages(t testing.TB) (*testBlog, []fieldPage) {
	blog := newBlogOf(t, Options{HTMLCacheBytes: 8 << 20}, store.Options{}, 64<<20)
	const users = 100
	name := func(i int) string { return fmt.Sprintf("user%04d", i%users) }
	for i := range users {
		blog.user(t, name(i))
	}
	busy := ""
	for i := range 100 {
		busy = blog.post(t, name(i), fmt.Sprint("日本語のブログ記事の題名です ", i),
			fmt.Sprintf("A *short* text with [a link](https://example.com/%d) and `code`.", i), fmt.Sprint("日本語 ", i))
	}
	long := blog.post(t, name(0), "a long post", strings.Repeat("Every *read* of the front page is one request.\n\n", 2000))
	for i := range 100 {
		blog.like(t, name(i), busy)
		blog.comment(t, name(i), busy, fmt.Sprintf("%d: *short*, with [a link](https://example.com/)", i))
	}
	list := func(field string) string {
		return fmt.Sprintf(`{ post(id: %q) { %s(first: 100) { edges { node { %%s } } } } }`, postGlobalID(busy), field)
	}
	return blog, []fieldPage{
		{"feed", "Post", "title", `{ feed(first: 100) { edges { node { %s } } } }`},
		{"post", "Post", "title", fmt.Sprintf(`{ post(id: %q) { %%s } }`, postGlobalID(long))},
		{"authors", "User", "username", `{ feed(first: 100) { edges { node { author { %s } } } } }`},
		{"edges", "PostEdge", "cursor", `{ feed(first: 100) { edges { %s } } }`},
		{"tags", "Tag", "name", `{ tags(first: 100) { %s } }`},
		{"comments", "Comment", "createdAt", list("comments")},
		{"likes", "Like", "createdAt", list("likes")},
	}
}

// fields returns the fields of the page's type, in order; of objects the name of their type.
func (p fieldPage) fields(schema *ast.Schema) (all []string) {
	for _, f := range schema.Types[p.typ].Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		field := f.Name
		if d := schema.Types[f.Type.Name()]; d.Kind == ast.Object {
			field += " { __typename }"
		}
		all = append(all, field)
	}
	slices.Sort(all)
	return all
}

// aliased returns the document with 90 aliases of a field.
func (p fieldPage) aliased(field, directive string) string {
	var selections strings.Builder
	name, inside, object := strings.Cut(field, " ")
	for i := range 90 {
		fmt.Fprintf(&selections, " a%d: %s%s", i, name, directive)
		if object {
			selections.WriteString(" " + inside)
		}
	}
	return fmt.Sprintf(p.document, selections.String())
}

// evaluate returns the CPU time of a document, or the code of its error.
func (b *testBlog) evaluate(t testing.TB, document string) (time.Duration, string) {
	r, w := benchRequest("", document), httptest.NewRecorder()
	began := cpuTime(t)
	b.ServeHTTP(w, r)
	took := cpuTime(t) - began
	if _, rest, refused := strings.Cut(w.Body.String(), `"code":"`); refused {
		code, _, _ := strings.Cut(rest, `"`)
		return took, code
	} else if w.Code != http.StatusOK {
		t.Fatalf("status %d: %.300s", w.Code, w.Body)
	}
	return took, ""
}
