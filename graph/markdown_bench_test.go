package graph

import (
	"testing"
	"time"

	"byline/graph/auth"
	"byline/store"
	"byline/store/seed"
)

// maxHTML is the most CPU of contentHtml, relative to content.
const maxHTML = 1.3

// BenchmarkContentHTML compares the CPU of contentHtml with that of content, for the posts of the demo blog: with
// rendered texts in their cache, and without that cache; items and responses are not cached. It fails if those in the
// cache take more than maxHTML.
//
//	go test -run '^$' -bench ContentHTML -benchtime 5000x ./graph
func BenchmarkContentHTML(b *testing.B) {
	content := seed.Demo(auth.DemoUserID)
	for name, cache := range map[string]int{"rendered": 8 << 20, "not rendered": 0} {
		blog := newBlogOf(b, Options{HTMLCacheBytes: cache}, store.Options{}, 0)
		if err := seed.LoadOffline(b.Context(), content, blog.store, nil); err != nil {
			b.Fatal(err)
		}
		read := func(n int, field string) {
			id := postGlobalID(content.PostID(n%content.Users, n/content.Users%10))
			if a := post(b, blog, "", `query($id: ID!) { post(id: $id) { id title `+field+` author { username } } }`,
				map[string]any{"id": id}); a.code() != "" {
				b.Fatal(a.body)
			}
			blog.wire.reset()
		}
		b.Run(name, func(b *testing.B) {
			var took [2]time.Duration
			for i, field := range []string{"content", "contentHtml"} {
				for n := range content.TotalPosts() {
					read(n, field)
				}
				began := cpuTime(b)
				for n := range b.N {
					read(n, field)
				}
				took[i] = cpuTime(b) - began
			}
			ratio := took[1].Seconds() / took[0].Seconds()
			b.ReportMetric(0, "ns/op") // of both
			b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "content-µs")
			b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "html-µs")
			b.ReportMetric(ratio, "times-content")
			if cache > 0 && b.N >= 1000 && ratio > maxHTML {
				b.Errorf("contentHtml takes %.2f times the CPU of content, more than %v", ratio, maxHTML)
			}
		})
	}
}
