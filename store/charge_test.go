package store_test

import (
	"context"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// TestCharges_AccountAndEngine compares the request charge of each operation on the endpoint of
// the tests with that of the embedded engine, in RU, and prints a table. Without an endpoint both
// are engines, and the test only shows that the charges are deterministic.
func TestCharges_AccountAndEngine(t *testing.T) {
	operations, account := charges(t, storetest.New(t))
	_, engine := charges(t, storetest.NewInProcess(t))
	out := table.NewWriter()
	out.SetOutputMirror(os.Stdout)
	out.AppendHeader(table.Row{"operation", "account RU", "engine RU", "engine / account"})
	for i, name := range operations {
		out.AppendRow(table.Row{name, account[i], engine[i], math.Round(100*engine[i]/account[i]) / 100})
		if account[i] <= 0 || engine[i] <= 0 {
			t.Errorf("%s: got %g and %g RU, want more than 0", name, account[i], engine[i])
		}
		if !cosmostest.OnEndpoint() && account[i] != engine[i] {
			t.Errorf("%s: got %g RU, then %g, want the same", name, account[i], engine[i])
		}
	}
	if cosmostest.OnEndpoint() {
		out.Render()
	}
}

// charges executes operations on a store without projections. It returns their names and their charges in RU.
func charges(t *testing.T, w *storetest.World) (names []string, rus []float64) {
	t.Helper()
	do := func(name string, operation func(context.Context) error) {
		t.Helper()
		var mu sync.Mutex
		var ru float64 // guarded by mu until the operation has ended
		err := operation(cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
			mu.Lock()
			defer mu.Unlock()
			ru += math.Round(100*o.RU) / 100
		}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names, rus = append(names, name), append(rus, math.Round(100*ru)/100)
	}
	ada, post := blog.UserID("test", "ada"), ""
	var comment string
	do("create a user", func(ctx context.Context) error {
		_, err := w.CreateUser(ctx, store.NewUser{ID: ada, Username: "ada"})
		return err
	})
	do("read a user", func(ctx context.Context) error { _, err := w.User(ctx, ada); return err })
	do("read a user by name", func(ctx context.Context) error { _, err := w.UserByUsername(ctx, "ada"); return err })
	do("create a post", func(ctx context.Context) error {
		p, err := w.CreatePost(ctx, store.NewPost{AuthorID: ada, Title: "A post", Content: "Its content."})
		if err == nil {
			post = p.ID
		}
		return err
	})
	do("read a post", func(ctx context.Context) error { _, err := w.Post(ctx, post); return err })
	do("comment", func(ctx context.Context) error {
		c, _, err := w.CreateComment(ctx, store.NewComment{AuthorID: ada, PostID: post, Content: "A comment."})
		if err == nil {
			comment = c.ID
		}
		return err
	})
	do("like", func(ctx context.Context) error { _, _, err := w.LikePost(ctx, ada, post); return err })
	do("list a user's posts", func(ctx context.Context) error {
		_, err := w.UserPosts(ctx, ada, store.Paging{First: 20})
		return err
	})
	do("list comments", func(ctx context.Context) error {
		_, err := w.Comments(ctx, post, store.Paging{First: 20})
		return err
	})
	do("list likes", func(ctx context.Context) error {
		_, err := w.Likes(ctx, post, store.Paging{First: 20})
		return err
	})
	do("list the feed", func(ctx context.Context) error { _, err := w.Feed(ctx, store.Paging{First: 20}); return err })
	do("edit a post", func(ctx context.Context) error {
		_, err := w.EditPost(ctx, ada, post, store.PostEdit{Title: new("An edited post")})
		return err
	})
	do("delete a comment", func(ctx context.Context) error {
		_, err := w.DeleteComment(ctx, ada, post, comment)
		return err
	})
	do("take a like back", func(ctx context.Context) error { _, err := w.UnlikePost(ctx, ada, post); return err })
	do("rename a user", func(ctx context.Context) error {
		_, err := w.UpdateUser(ctx, ada, store.UserEdit{Username: new("countess")})
		return err
	})
	do("delete a post", func(ctx context.Context) error { return w.DeletePost(ctx, ada, post) })
	return names, rus
}
