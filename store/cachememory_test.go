package store

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/blog/markdown"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
)

// cacheReads is a million for a full measurement:
//
//	go test ./store ./graph -run 'Cache_Memory|ResponseCache_Memory' -v -distinct 1000000
var cacheReads = flag.Int("distinct", 50_000, "how many distinct reads TestCache_Memory makes")

// Distinct reads of small items, large items and pages take at most the cache's limit and a tenth in memory.
func TestCache_Memory(t *testing.T) {
	testkit.Heavy(t)
	const limit = 16 << 20
	reads := *cacheReads
	like := fmt.Sprintf(`{"userId":"%s","userUsername":"user","creationDate":"%s"}`, id(1),
		blog.NewDate(time.Unix(0, 0)))
	likes := fmt.Sprintf(`{"_rid":"x","Documents":[%s],"_count":100}`,
		strings.Join(slices.Repeat([]string{like}, 100), ","))
	posts := fmt.Sprintf(`{"_rid":"x","Documents":[%s],"_count":100}`, strings.Join(slices.Repeat([]string{fmt.Sprintf(
		`{"id":"%s","userId":"%s","userUsername":"user","title":"日本語のブログ記事の題名です、長い","content":"*%s*",`+
			`"truncated":false,"commentCount":0,"likeCount":0,"creationDate":"%s","version":1,"revision":1}`,
		id(2), id(1), strings.Repeat("字 ", 130), blog.NewDate(time.Unix(0, 0)))}, 100), ","))
	for name, tt := range map[string]struct {
		reads int
		bytes int // size of the response
		value func(ctx context.Context, n int) any
	}{
		"likes": {reads, 400, func(_ context.Context, n int) any {
			return &blog.Like{PostID: id(n), Byline: blog.Byline{UserID: id(n + 1), Username: fmt.Sprint("user", n)},
				CreatedAt: "x"}
		}},
		"posts": {reads / 5, 1900, func(_ context.Context, n int) any {
			return &blog.Post{ID: id(n), Title: fmt.Sprint("post ", n), Content: strings.Repeat("x", 1200+n%7),
				Byline: blog.Byline{UserID: id(n), Username: fmt.Sprint("user", n)}}
		}},
		"pages": {reads / 10, len(likes), func(ctx context.Context, n int) any {
			p := &Page[*blog.Like]{Items: make([]*blog.Like, 0, 100)}
			items, _ := blog.Likes.Decode([]byte(likes), blog.Like{PostID: id(n)}, blog.MaxPage+1)
			itemcache.AddSize(ctx, weight(items, len(likes), nil))
			for i := range items {
				p.Items = append(p.Items, &items[i])
			}
			return p
		}},
		"pages of posts, with what is computed from them": {reads / 100, len(posts), func(ctx context.Context, n int) any {
			p := &Page[*blog.Post]{Items: make([]*blog.Post, 0, 100)}
			items, err := blog.Summaries.Decode([]byte(posts), blog.Post{}, blog.MaxPage+1)
			if err != nil || len(items) != 100 {
				t.Fatal(len(items), err)
			}
			itemcache.AddSize(ctx, weight(items, len(posts), blog.Summaries.Besides))
			for i := range items {
				p.Items = append(p.Items, &items[i])
				excerpt, err := items[i].Excerpt(func(source string) (markdown.HTML, error) {
					return markdown.Show(ctx, source)
				})
				if items[i].Slug() == "" || excerpt == "" || items[i].Minutes() != 1 {
					t.Fatal(items[i], err)
				}
			}
			return p
		}},
		"absent items": {reads, 100, func(context.Context, int) any { return (*blog.Post)(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.BoundedHeap(t, limit, func() any {
				account, err := cosmos.Open(cosmos.Options{Endpoint: "https://localhost", Key: "a2V5",
					CacheBytes: limit})
				if err != nil {
					t.Fatal(err)
				}
				posts, err := account.Container("blog", blog.PostsContainer)
				if err != nil {
					t.Fatal(err)
				}
				for n := range tt.reads {
					_, err := cosmos.Get(t.Context(), posts, id(n), id(n), func(ctx context.Context) (any, error) {
						itemcache.AddSize(ctx, tt.bytes)
						return tt.value(ctx, n), nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				account.CachedBytes()
				return account
			})
		})
	}
}

func id(n int) string { return fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n) }
