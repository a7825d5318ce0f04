package graph

import (
	"context"
	"slices"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store"
)

// BenchmarkAccounting repeats Q2 on an unchanged post, without and with the item cache. Run it in two builds, one of
// them without cost accounting: see docs/performance.md.
//
//	go test -run '^$' -bench Accounting ./graph
func BenchmarkAccounting(b *testing.B) {
	for name, cache := range map[string]int{"cache=none": 0, "cache=hit": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			blog := newBlogOf(b, Options{}, store.Options{}, cache)
			blog.user(b, "ada")
			blog.post(b, "ada", "engines", "Of the analytical engine, and all that it weaves.")
			query := blog.fill(
				`{ post(id: "<post:engines>") { id title content commentCount likeCount createdAt author { id username } } }`)
			read := func(int) (string, string) { return "", query }
			if cache > 0 {
				running, stop := context.WithCancel(b.Context())
				var background sync.WaitGroup
				background.Go(func() { _ = blog.store.Run(running) }) // it returns only when its context ends
				defer background.Wait()
				defer stop()
				testkit.WaitFor(b, func() bool {
					blog.wire.reset()
					post(b, blog, "", query, nil)
					return !slices.Contains(blog.wire.seen(), "read posts")
				})
			}
			measure(b, blog, accessPattern{"Q2", read})
		})
	}
}
