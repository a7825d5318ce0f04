package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

// lists returns every list of a world, by name.
func lists(
	w *world, u *blog.User, p *blog.Post,
) map[string]func(context.Context, store.Paging) ([]string, []string, bool, error) {
	return map[string]func(context.Context, store.Paging) ([]string, []string, bool, error){
		"feed": func(ctx context.Context, paging store.Paging) ([]string, []string, bool, error) {
			return ids(w.Feed(ctx, paging))(func(p *blog.Post) string { return p.ID })
		},
		"posts of a user": func(ctx context.Context, paging store.Paging) ([]string, []string, bool, error) {
			return ids(w.UserPosts(ctx, u.UserID, paging))(func(p *blog.Post) string { return p.ID })
		},
		"comments, newest first": func(ctx context.Context, paging store.Paging) ([]string, []string, bool, error) {
			return ids(w.Comments(ctx, p.ID, paging))(func(c *blog.Comment) string { return c.ID })
		},
		"comments, oldest first": func(ctx context.Context, paging store.Paging) ([]string, []string, bool, error) {
			paging.Order = store.OldestFirst
			return ids(w.Comments(ctx, p.ID, paging))(func(c *blog.Comment) string { return c.ID })
		},
		"likes": func(ctx context.Context, paging store.Paging) ([]string, []string, bool, error) {
			return ids(w.Likes(ctx, p.ID, paging))(func(l *blog.Like) string { return l.UserID })
		},
	}
}

func ids[T any](page *store.Page[T], err error) func(func(T) string) ([]string, []string, bool, error) {
	return func(id func(T) string) ([]string, []string, bool, error) {
		if err != nil {
			return nil, nil, false, err
		}
		var out, cursors []string
		for i, v := range page.Items {
			out, cursors = append(out, id(v)), append(cursors, page.Cursor(i))
		}
		return out, cursors, page.More, nil
	}
}

func TestPages_ConcurrentWrites(t *testing.T) {
	for _, sameDate := range []bool{false, true} {
		t.Run(fmt.Sprintf("same date: %v", sameDate), func(t *testing.T) {
			w := newWorld(t)
			w.Clock.Stopped.Store(sameDate)
			ada := w.AddUser("ada")
			p := w.AddPost(ada, "paged")
			const initial = 40
			for i := range initial {
				u := w.AddUser(fmt.Sprintf("user%d", i))
				w.AddLike(u, p)
				w.AddComment(u, p, "a comment")
				if i > 0 {
					w.AddPost(ada, fmt.Sprintf("post %d", i))
				}
			}
			late := 0
			for name, list := range lists(w, ada, p) {
				t.Run(name, func(t *testing.T) {
					before, _, _, err := list(t.Context(), store.Paging{First: 100})
					if err != nil {
						t.Fatal(err)
					}
					writing, stop := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					defer wg.Wait()
					defer stop()
					wg.Go(func() {
						for i := 0; writing.Err() == nil && i < 20; i++ {
							late++
							if err := w.WriteLate(fmt.Sprintf("late%d", late), ada, p); err != nil {
								t.Error(err)
								return
							}
						}
					})
					seen := map[string]int{}
					paging := store.Paging{First: 7}
					for {
						got, cursors, more, err := list(t.Context(), paging)
						if err != nil {
							t.Fatal(err)
						}
						for _, id := range got {
							seen[id]++
						}
						if !more {
							break
						}
						if len(got) != 7 {
							t.Fatalf("got a page of %d items before the end, want 7", len(got))
						}
						paging.After = cursors[len(cursors)-1]
					}
					for _, id := range before {
						if name == "feed" && len(seen) == 100 {
							break // the feed ends after 100
						}
						if seen[id] == 0 {
							t.Errorf("%s is missing", id)
						}
					}
					for id, n := range seen {
						if n > 1 {
							t.Errorf("%s is in the pages %d times, want 1", id, n)
						}
					}
				})
			}
		})
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "a")
	for i := range 14 {
		u := w.AddUser(fmt.Sprintf("user%d", i))
		w.AddLike(u, p)
		w.AddComment(u, p, "a comment")
		if i > 0 {
			w.AddPost(ada, "b")
		}
	}
	all := lists(w, ada, p)
	cursors := map[string]string{}
	for name, list := range all {
		t.Run(name, func(t *testing.T) {
			whole, c, more, err := list(t.Context(), store.Paging{First: 14})
			if err != nil || len(whole) != 14 || more {
				t.Fatalf("got %d, %v, %v", len(whole), more, err)
			}
			cursors[name] = c[3]
			if one, _, more,
				err := list(t.Context(), store.Paging{First: 1}); err != nil || !more || one[0] != whole[0] {
				t.Errorf("first 1: %v, %v, %v", one, more, err)
			}
			rest, _, more, err := list(t.Context(), store.Paging{First: 100, After: c[9]})
			if diff := cmp.Diff(whole[10:], rest); diff != "" || more || err != nil {
				t.Errorf("after the tenth: %s %v %v", diff, more, err)
			}
			if end, _, more,
				err := list(t.Context(), store.Paging{First: 5, After: c[13]}); err != nil || more || len(end) != 0 {
				t.Errorf("after the end: %v, %v, %v", end, more, err)
			}
			for _, n := range []int{0, -1, 101} {
				_, _, _, err := list(t.Context(), store.Paging{First: n})
				storetest.WantCode(t, err, blog.Invalid, "first")
			}
			for _, bad := range []string{"x", "AAAA", c[0] + "A", c[0][:len(c[0])-1], "é", string(make([]byte, 300))} {
				_, _, _, err := list(t.Context(), store.Paging{First: 5, After: bad})
				storetest.WantCode(t, err, blog.Invalid, "after")
			}
		})
	}
	for from, cursor := range cursors {
		for to, list := range all {
			if from == to {
				continue
			}
			_, _, _, err := list(t.Context(), store.Paging{First: 5, After: cursor})
			storetest.WantCode(t, err, blog.Invalid, "after")
		}
	}
	_, err := w.Comments(t.Context(), w.AddPost(ada, "another").ID,
		store.Paging{First: 5, After: cursors["comments, newest first"]})
	storetest.WantCode(t, err, blog.Invalid, "after")
	_, err = w.Comments(t.Context(), "absent", store.Paging{First: 5, Order: "oldest_first"})
	storetest.WantCode(t, err, blog.Invalid, "order")
	if page, err := w.Comments(t.Context(), "absent", store.Paging{First: 5}); err != nil || len(page.Items) != 0 ||
		page.More {
		t.Errorf("comments of an unknown post: got %v, %v, want an empty page", page, err)
	}
}

// A page whose JSON only the fallback decodes, as with a blank after the brace, has the same items, also if it is full.
func TestPages_JSONFallback(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "a")
	for i := range 3 {
		u := w.AddUser(fmt.Sprintf("user%d", i))
		w.AddLike(u, p)
		w.AddComment(u, p, fmt.Sprintf("comment %d", i))
		w.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	for name, page := range map[string]func(first int) (any, bool, error){
		"feed": func(n int) (any, bool, error) { return items(w.Feed(t.Context(), store.Paging{First: n})) },
		"posts of a user": func(n int) (any, bool, error) {
			return items(w.UserPosts(t.Context(), ada.UserID, store.Paging{First: n}))
		},
		"comments": func(n int) (any, bool, error) {
			return items(w.Comments(t.Context(), p.ID, store.Paging{First: n}))
		},
		"likes": func(n int) (any, bool, error) { return items(w.Likes(t.Context(), p.ID, store.Paging{First: n})) },
	} {
		for _, first := range []int{2, 3, 10} {
			t.Run(fmt.Sprintf("%s, first %d", name, first), func(t *testing.T) {
				want, wantMore, err := page(first)
				if err != nil {
					t.Fatal(err)
				}
				altered := 0
				w.Wire.After(func(r *http.Response) {
					b, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					if bytes.HasPrefix(b, []byte(`{"_rid"`)) {
						b = slices.Insert(b, 1, ' ')
						altered++
					}
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
					r.Header.Set("Content-Length", fmt.Sprint(len(b)))
				})
				defer w.Wire.After(nil)
				got, more, err := page(first)
				if err != nil || more != wantMore || altered == 0 {
					t.Errorf("more %v, want %v; %d bodies altered; %v", more, wantMore, altered, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		}
	}
}

func items[T any](page *store.Page[T], err error) (any, bool, error) {
	if err != nil {
		return nil, false, err
	}
	return page.Items, page.More, nil
}

func TestPages_OldestFirst(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "a")
	w.Clock.Stopped.Store(true)
	for range 10 {
		w.AddComment(ada, p, "x")
	}
	l := lists(w, ada, p)
	newest, _, _, err1 := l["comments, newest first"](t.Context(), store.Paging{First: 100})
	oldest, _, _, err2 := l["comments, oldest first"](t.Context(), store.Paging{First: 100})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for i, id := range newest {
		if oldest[len(oldest)-1-i] != id {
			t.Fatalf("%v is not the reverse of %v", oldest, newest)
		}
	}
}
