package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// monthsOf returns the months that have posts, and their numbers of posts.
func monthsOf(t *testing.T, s *store.Store) string {
	t.Helper()
	months, err := s.Months(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range months {
		n, err := s.MonthCount(t.Context(), m.Month)
		if err != nil || n != m.PostCount {
			t.Errorf("%s: counted %d posts, want %d: %v", m.Month, n, m.PostCount, err)
		}
		all = append(all, fmt.Sprintf("%s: %d", m.Month, m.PostCount))
	}
	return strings.Join(all, ", ")
}

// The archive has every post once, in the month of its publication. The counts by month follow writes, also in the
// newest month, which the timeline's item does not count.
func TestArchive(t *testing.T) {
	w := newWorld(t)
	if months := monthsOf(t, w.Store); months != "" {
		t.Errorf("a blog without posts: %s", months)
	}
	from, to := time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	ada, posts := addPosts(w, "ada", 90, from, to, func(int) []string { return nil }) // one a day
	w.Start()
	testkit.Until(t, w.CaughtUp)
	if months := monthsOf(t, w.Store); months != "2026-02: 28, 2026-01: 31, 2025-12: 31" {
		t.Errorf("got %s", months)
	}
	countRequests(w)
	archive := func(month string) listOfPosts {
		return func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
			return w.Archive(ctx, month, p)
		}
	}
	for month, want := range map[string]int{"2026-02": 28, "2026-01": 31, "2025-12": 31, "2025-11": 0, "2026-04": 0} {
		ids := readAll(t, archive(month), 7, func(page int, r *requested) {
			if r.queries > 1 || r.batches > 1 || r.pointReads+r.writes > 0 {
				t.Errorf("page %d of %s took %d queries, %d batches and %d requests in all", page, month, r.queries,
					r.batches, r.all())
			}
		})
		if len(ids) != want {
			t.Errorf("%s has %d posts, want %d", month, len(ids), want)
		}
		for _, p := range posts {
			if ids[p.ID] != (p.CreatedAt.Month() == month) {
				t.Errorf("%s of %s is in %s: %t", p.ID, p.CreatedAt, month, ids[p.ID])
			}
		}
	}

	// A deletion in each month; the first post of a new month, and another.
	for _, i := range []int{0, 31, 89} {
		if err := w.DeletePost(t.Context(), ada.UserID, posts[i].ID); err != nil {
			t.Fatal(err)
		}
	}
	newest := w.AddPost(ada, "new").CreatedAt.Month()
	w.AddPost(ada, "newer")
	testkit.Until(t, func() error {
		want := newest + ": 2, 2026-02: 27, 2026-01: 30, 2025-12: 30"
		if months := monthsOf(t, w.Store); months != want {
			return fmt.Errorf("got %s, want %s", months, want)
		}
		return nil
	})
	if ids := readAll(t, archive("2025-12"), 100, func(int, *requested) {}); len(ids) != 30 || ids[posts[0].ID] {
		t.Errorf("%d posts after the deletion", len(ids))
	}
}

// Malformed months, and cursors of other lists, are invalid.
func TestArchive_Invalid(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	month := w.AddPost(ada, "one").CreatedAt.Month()
	w.AddPost(ada, "two")
	feed, err := w.Feed(t.Context(), store.Paging{First: 1})
	if err != nil {
		t.Fatal(err)
	}
	page, err := w.Archive(t.Context(), month, store.Paging{First: 1})
	if err != nil || len(page.Items) != 1 || !page.More {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, tt := range map[string]struct {
		month string
		p     store.Paging
		field string
	}{
		"no month":                  {"", store.Paging{First: 1}, "month"},
		"a year":                    {"2026", store.Paging{First: 1}, "month"},
		"a date":                    {"2026-11-01", store.Paging{First: 1}, "month"},
		"a thirteenth month":        {"2026-13", store.Paging{First: 1}, "month"},
		"a partition":               {"2026-11.x", store.Paging{First: 1}, "month"},
		"a page of none":            {month, store.Paging{}, "first"},
		"a page of too many":        {month, store.Paging{First: 101}, "first"},
		"a cursor of the feed":      {month, store.Paging{First: 1, After: feed.Cursor(0)}, "after"},
		"a cursor of another month": {"2020-01", store.Paging{First: 1, After: page.Cursor(0)}, "after"},
		"no cursor":                 {month, store.Paging{First: 1, After: "x"}, "after"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Archive(t.Context(), tt.month, tt.p)
			var invalid *blog.Error
			if !errors.As(err, &invalid) || invalid.Code != blog.Invalid || invalid.Field != tt.field {
				t.Errorf("got %v, want an invalid %s", err, tt.field)
			}
		})
	}
	if _, err := w.MonthCount(t.Context(), "x"); blog.CodeOf(err) != blog.Invalid {
		t.Errorf("the count of no month: %v", err)
	}
}
