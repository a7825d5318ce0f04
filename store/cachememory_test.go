package store

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/heaptest"
)

// cacheReads is a million where it matters:
//
//	go test ./store ./graph -run 'CacheMemory|AnswerMemory' -v -distinct 1000000
var cacheReads = flag.Int("distinct", 50_000, "how many distinct reads TestCacheMemory makes")

// Any number of distinct reads takes no more memory than the cache may have, and a tenth: of
// small items, of large ones, and of pages.
func TestCacheMemory(t *testing.T) {
	const limit = 16 << 20
	reads := *cacheReads
	for name, tt := range map[string]struct {
		reads int
		bytes int // of the response
		value func(n int) any
	}{
		"likes": {reads, 400, func(n int) any {
			return &Like{PostID: id(n), UserID: id(n + 1), Username: fmt.Sprint("user", n), CreatedAt: "x"}
		}},
		"posts": {reads / 5, 1900, func(n int) any {
			return &Post{ID: id(n), Title: fmt.Sprint("post ", n), Content: strings.Repeat("x", 1200+n%7), AuthorID: id(n), AuthorUsername: fmt.Sprint("user", n)}
		}},
		"pages": {reads / 10, 16_000, func(n int) any {
			p := &Page[*Comment]{}
			for i := range 25 {
				p.Items = append(p.Items, &Comment{ID: id(n + i), PostID: id(n), Content: strings.Repeat("x", 300+n%7), AuthorID: id(i), AuthorUsername: fmt.Sprint("user", i), CreatedAt: "x"})
			}
			return p
		}},
		"nothing": {reads, 100, func(int) any { return (*Post)(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			heaptest.Bounded(t, limit, func() any {
				c := NewCache(limit)
				c.meter = NewMeter(prometheus.NewRegistry())
				for n := range tt.reads {
					_, err := recall(t.Context(), c, postsContainer, id(n), id(n), func(ctx context.Context) (any, error) {
						ctx.Value(readingKey{}).(*reading).bytes = tt.bytes
						return tt.value(n), nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				c.entries.CleanUp()
				return c
			})
		})
	}
}

func id(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }
