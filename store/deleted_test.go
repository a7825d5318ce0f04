package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// charge returns the request charge of read.
func charge(t *testing.T, read func(context.Context) error) (ru float64) {
	t.Helper()
	ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) { ru += o.RU })
	if err := read(ctx); err != nil {
		t.Fatal(err)
	}
	if ru == 0 {
		t.Fatal("nothing is charged")
	}
	return ru
}

// Deleted comments and posts cost the readers of lists nothing.
func TestLists_AfterDeletions(t *testing.T) {
	const deleted = 1000
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "post")
	for i := range 21 {
		w.AddComment(ada, p, fmt.Sprint("comment ", i))
	}
	lists := map[string]func(context.Context) error{
		"comments, newest first": func(ctx context.Context) error {
			_, err := w.Comments(ctx, p.ID, store.Paging{First: 20})
			return err
		},
		"comments, oldest first": func(ctx context.Context) error {
			_, err := w.Comments(ctx, p.ID, store.Paging{First: 20, Order: store.OldestFirst})
			return err
		},
		"posts of a user": func(ctx context.Context) error {
			_, err := w.UserPosts(ctx, ada.UserID, store.Paging{First: 20})
			return err
		},
		"number of posts": func(ctx context.Context) error {
			_, err := w.PostCount(ctx, ada.UserID)
			return err
		},
		"feed": func(ctx context.Context) error {
			_, err := w.Feed(ctx, store.Paging{First: 20})
			return err
		},
	}
	before := map[string]float64{}
	for name, read := range lists {
		before[name] = charge(t, read)
	}

	// Real deletions show which items they leave; the others are copies of these.
	c := w.AddComment(ada, p, "deleted")
	if _, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	gone := w.AddPost(ada, "deleted")
	if err := w.DeletePost(t.Context(), ada.UserID, gone.ID); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ container, partition, id string }{{"posts", p.ID, c.ID},
		{"users", ada.UserID, gone.ID}, {"feed", "post", gone.ID}} {
		tombstone := string(storedItem(t, w, of.container, of.partition, of.id))
		if !strings.Contains(tombstone, `"deleted":true`) {
			t.Fatalf("no tombstone: %s", tombstone)
		}
		for i := range deleted {
			w.Upsert(of.container, of.partition, strings.ReplaceAll(tombstone, of.id, fmt.Sprintf("%s-%d", of.id, i)))
		}
	}
	for name, read := range lists {
		got := charge(t, read)
		t.Logf("%s: %.2f RU, after deletions %.2f", name, before[name], got)
		if got > 1.01*before[name] {
			t.Errorf("%s: %.2f RU after %d deletions, %.2f before", name, got, deleted, before[name])
		}
	}
	if n, err := w.PostCount(t.Context(), ada.UserID); n != 1 || err != nil {
		t.Errorf("counts %d posts, %v", n, err)
	}
}

// storedItem returns an item as it is stored.
func storedItem(t *testing.T, w *world, container, partition, id string) []byte {
	t.Helper()
	c, err := w.Account.Container(w.Database, container)
	if err != nil {
		t.Fatal(err)
	}
	item, err := c.Read(t.Context(), cosmos.Key{Partition: partition, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return item.Value
}

// Lists skip tombstones with the type of what was deleted, as version 0.1 wrote: pages are full, and whether more
// follow is exact.
func TestLists_FormerTombstones(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "post 0")
	var posts, comments []string
	posts = append(posts, p.ID)
	for i := 1; i < 7; i++ {
		posts = append(posts, w.AddPost(ada, fmt.Sprint("post ", i)).ID)
		comments = append(comments, w.AddComment(ada, p, fmt.Sprint("comment ", i)).ID)
	}
	for i, at := range []string{p.ID, posts[3], posts[6]} {
		post, err := w.Post(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("former%d", i)
		w.Upsert("posts", p.ID,
			fmt.Sprintf(
				`{"type":"comment","deleted":true,"ttl":2592000,"id":%q,"postId":%q,"userId":%q,"creationDate":%q}`,
				id, p.ID, ada.UserID, post.CreatedAt))
		former := fmt.Sprintf(
			`{"type":"post","deleted":true,"ttl":2592000,"id":%q,"postId":%[1]q,"userId":%q,"userUsername":"ada","creationDate":%q,"revision":2}`, id, ada.UserID, post.CreatedAt)
		w.Upsert("users", ada.UserID, former)
		w.Upsert("feed", "post", former)
	}
	slices.Reverse(posts)
	slices.Reverse(comments)
	for first := 1; first <= 8; first++ {
		checkPages(t, "comments", comments, first, func(after string) (*store.Page[*blog.Comment], error) {
			return w.Comments(t.Context(), p.ID, store.Paging{First: first, After: after})
		}, func(c *blog.Comment) string { return c.ID })
		ofPost := func(p *blog.Post) string { return p.ID }
		checkPages(t, "posts of a user", posts, first, func(after string) (*store.Page[*blog.Post], error) {
			return w.UserPosts(t.Context(), ada.UserID, store.Paging{First: first, After: after})
		}, ofPost)
		checkPages(t, "feed", posts, first, func(after string) (*store.Page[*blog.Post], error) {
			return w.Feed(t.Context(), store.Paging{First: first, After: after})
		}, ofPost)
	}
}

// checkPages reads a list in pages, and checks that each is full but the last.
func checkPages[T any](
	t *testing.T, list string, want []string, first int, read func(after string) (*store.Page[T], error),
	id func(T) string,
) {
	t.Helper()
	var got []string
	for after := ""; ; {
		page, err := read(after)
		if err != nil {
			t.Fatalf("%s by %d: %v", list, first, err)
		}
		for _, item := range page.Items {
			got = append(got, id(item))
		}
		if page.More != (len(got) < len(want)) || page.More && len(page.Items) != first {
			t.Errorf("%s by %d: a page of %d; more: %t", list, first, len(page.Items), page.More)
		}
		if !page.More || len(got) > len(want) {
			break
		}
		after = page.Cursor(len(page.Items) - 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s by %d: got %v, want %v", list, first, got, want)
	}
}
