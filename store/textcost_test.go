package store_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// TestText_Costs compares the RU of a like and of so many reads of a post that has its text itself with those of a post
// whose text is an item of its own, and prints the table of docs/partitioning.md. Summed over the four cases a text of
// blog.InlineText is cheaper on the post, and one of twice the length is cheaper as an item.
func TestText_Costs(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{})
		setup := newInstance(t, on)
		w := &world{&storetest.World{Store: setup.Store, T: t}}
		ada := w.AddUser("ada")
		posts, err := setup.account.Container(on.Database, blog.PostsContainer)
		if err != nil {
			t.Fatal(err)
		}
		// add writes a post with a text of so many bytes, on the post or as an item.
		add := func(bytes int, alone bool) *blog.Post {
			p := w.AddPost(ada, "A title of average length, some 50 characters long")
			content := longText(bytes)
			if alone {
				p.ID = blog.LongID(p.ID)
			}
			text := blog.NewText(p.ID, ada.UserID, content)
			item := blog.PostItem{Envelope: blog.Envelope{Type: blog.TypePost}, PostID: p.ID, Post: *p}
			if item.Content = content; alone {
				item.Content, item.TextDigest = (&blog.Post{Content: content}).StoredExcerpt(), text.Digest
				if err := posts.Create(t.Context(), p.ID, blog.Encode(text)); err != nil {
					t.Fatal(err)
				}
				err = posts.Create(t.Context(), p.ID, blog.Encode(item))
			} else {
				_, err = posts.Replace(t.Context(), cosmos.Key{Partition: p.ID, ID: p.ID}, blog.Encode(item), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		stores := map[bool]*cachedStore{false: newCachedStore(t, on, 0), true: newCachedStore(t, on, 1<<20)}
		testkit.Advance(blog.MaxWriteTime)
		var rows []string
		for _, kb := range []int{2, 4, 8, 16} {
			like, read, sum := map[bool]float64{}, map[bool]float64{}, map[bool]float64{}
			cells := ""
			for _, cached := range []bool{false, true} {
				for _, reads := range []int{20, 5} {
					for _, alone := range []bool{false, true} {
						s := stores[cached]
						p := add(kb<<10, alone)
						_, _ = s.Post(t.Context(), p.ID) // wakes the tail
						testkit.Advance(blog.DeletionGrace)
						_, _ = s.Post(t.Context(), p.ID)
						testkit.Advance(1)
						s.readUserOf(t, ada)
						ru := ruOf(t, func(ctx context.Context) error {
							_, _, err := s.LikePost(ctx, ada.UserID, p.ID)
							return err
						})
						like[alone], read[alone] = ru, 0
						for range reads {
							one := ruOf(t, func(ctx context.Context) error {
								got, err := s.Post(ctx, p.ID)
								if err == nil && len(got.Content) < kb<<10-20 {
									err = fmt.Errorf("got a text of %d bytes", len(got.Content))
								}
								return err
							})
							ru += one
							read[alone] = max(read[alone], one)
						}
						sum[alone] += ru
						cells += fmt.Sprintf(" %.1f |", ru)
					}
				}
			}
			rows = append(rows,
				fmt.Sprintf("| %d KB | %.2f | %.2f | %.1f | %.1f |%s", kb, read[false], read[true], like[false],
					like[true], cells))
			if chosen := kb<<10 <= blog.InlineText; chosen != (sum[false] < sum[true]) {
				t.Errorf("a text of %d KB costs %.1f RU on the post and %.1f as an item, but is on the post: %t", kb,
					sum[false], sum[true], chosen)
			}
		}
		t.Log("\n" + strings.Join(rows, "\n"))
	})
}

func (r *cachedStore) readUserOf(t testing.TB, u *blog.User) {
	t.Helper()
	if _, err := r.Users(t.Context(), []string{u.UserID}); err != nil {
		t.Fatal(err)
	}
}

// ruOf returns the RU that an operation is charged.
func ruOf(t testing.TB, operation func(context.Context) error) float64 {
	t.Helper()
	var mu sync.Mutex
	ru := 0.0 // guarded by mu
	err := operation(cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
		mu.Lock()
		defer mu.Unlock()
		ru += o.RU
	}))
	if err != nil {
		t.Fatal(err)
	}
	return math.Round(100*ru) / 100
}
