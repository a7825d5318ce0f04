package projection_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
	"byline/store/blog"
	"byline/store/projection"
)

// manyChanges makes BenchmarkCatchUp long, as in
//
//	go test ./store/projection -run '^$' -bench CatchUp -benchtime 1x -changes 1000000
var manyChanges = flag.Int("changes", 10_000, "number of posts, comments and likes in BenchmarkCatchUp")

// BenchmarkCatchUp measures how long the projections take to write all views of a blog without any. Of 100
// items, one is a post, 19 are comments and 80 are likes, by 1,000 users.
func BenchmarkCatchUp(b *testing.B) {
	const perPost = 100
	for b.Loop() {
		b.StopTimer()
		w := newWorldWith(b, store.Options{PollInterval: 100 * time.Millisecond}) // as with the embedded engine
		date := string(blog.NewDate(w.Clock.Now()))
		user := func(i int) string { return fmt.Sprintf("user-%d", i%1000) }
		w.insert("users", 1000, func(i int) (string, map[string]any) {
			return user(i),
				map[string]any{"id": user(i), "userId": user(i), "type": "user", "username": user(i),
					"creationDate": date, "revision": 1}
		})
		w.insertPosts(*manyChanges/perPost, func(n int) (string, []map[string]any) {
			id := fmt.Sprintf("post-%d", n)
			items := []map[string]any{{"id": id, "type": "post", "title": id, "content": "x", "commentCount": 19,
				"likeCount": 80,
				"version":   1, "revision": perPost, "userId": user(n), "userUsername": user(n)}}
			for i := 1; i < perPost; i++ {
				u := user(n*7 + i)
				item := map[string]any{"id": "like-" + u, "type": "like", "userId": u, "userUsername": u}
				if i <= 19 {
					item["id"], item["type"], item["content"] = fmt.Sprint("comment-", i), "comment", "x"
				}
				items = append(items, item)
			}
			for _, item := range items {
				item["postId"], item["creationDate"] = id, string(blog.NewDate(w.Clock.Now()))
			}
			return id, items
		})
		b.StartTimer()
		began := time.Now()
		stop := w.Start()
		for range time.Tick(100 * time.Millisecond) {
			if w.Checkpoints() == 3 && w.CaughtUp() == nil { // of posts, users, and the sweep of usernames
				break
			}
		}
		b.ReportMetric(float64(*manyChanges)/time.Since(began).Seconds(), "changes/s")
		b.StopTimer()
		stop()
		found := 0
		if err := w.Views().Verify(context.Background(), 0, nil, func(d projection.Difference) {
			if d.Kind != projection.Username { // insert has reserved no names
				found++
			}
		}); err != nil || found > 0 {
			b.Errorf("%d differences, %v", found, err)
		}
		b.StartTimer()
	}
}

// insertPosts creates posts with their comments and likes directly in the container, each post in one batch of
// at most 100 items.
func (w *world) insertPosts(n int, post func(n int) (id string, items []map[string]any)) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, "posts")
	if err != nil {
		w.T.Fatal(err)
	}
	w.each(4, n, func(i int) error {
		id, items := post(i)
		b := c.NewTransactionalBatch(azcosmos.NewPartitionKeyString(id))
		for _, item := range items {
			raw, err := json.Marshal(item)
			if err != nil {
				return err
			}
			b.CreateItem(raw, nil)
		}
		r, err := c.ExecuteTransactionalBatch(context.Background(), b, nil)
		if err == nil && !r.Success {
			err = fmt.Errorf("%v", r.OperationResults)
		}
		return err
	})
}
