package store_test

import (
	"testing"
	"time"

	"byline/store"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// Cached values of different types do not collide, although clients choose the ids.
func TestCache_ItemsOfOtherTypes(t *testing.T) {
	r := newCachedStore(t, cosmostest.Open(t, emulator.Options{}), 1<<20)
	const p = "p"
	colliding := []string{p, "like-u1", "post", "like u1", "comment p", "user"}
	deadline := time.Now().Add(300 * time.Millisecond) // long enough for items to be cached
	for time.Now().Before(deadline) {
		for _, id := range colliding {
			if _, err := r.Comment(t.Context(), p, id); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Like(t.Context(), p, id); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Liked(t.Context(), id, []string{p, "q"}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Posts(t.Context(), []string{p, id}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Post(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Users(t.Context(), []string{p, id}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.User(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			for _, order := range []store.Order{store.NewestFirst, store.OldestFirst} {
				if _, err := r.Comments(t.Context(), id, store.Paging{First: 25, Order: order}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Likes(t.Context(), id, store.Paging{First: 25}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
