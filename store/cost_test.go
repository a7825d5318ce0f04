package store_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// bill sums request charges by the purpose of the requests.
type bill struct {
	mu    sync.Mutex
	parts map[string]float64 // guarded by mu
}

func (b *bill) add(r *http.Response) {
	ru, _ := strconv.ParseFloat(r.Header.Get("x-ms-request-charge"), 64)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts[partOf(r.Request)] += ru
}

// Parts of a bill that no write affects.
const (
	listings = "listings" // of leases and jobs
	metadata = "metadata"
)

// partOf returns the purpose of a request. Background work has low priority.
func partOf(r *http.Request) string {
	_, path, _ := strings.Cut(r.URL.Path, "/colls/")
	switch {
	case !strings.Contains(path, "/docs"):
		return metadata
	case strings.HasPrefix(path, "leases/") && r.Header.Get("x-ms-documentdb-query") != "":
		return listings
	case strings.HasPrefix(path, "leases/"):
		return "leases"
	case r.Header.Get("A-Im") != "":
		return "polls"
	case r.Header.Get("x-ms-cosmos-priority-level") == "Low":
		return "views"
	}
	return "request"
}

// take returns the charges since the last take, by part.
func (b *bill) take() (parts map[string]float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts, b.parts = b.parts, map[string]float64{}
	return parts
}

// rates lets d pass, and returns the charges per second, by part.
func (b *bill) rates(d time.Duration) map[string]float64 {
	testkit.Advance(d)
	parts := b.take()
	for part := range parts {
		parts[part] /= d.Seconds()
	}
	return parts
}

func sum(parts map[string]float64) (all float64) {
	for _, ru := range parts {
		all += ru
	}
	return all
}

// row is a row of a Markdown table of docs/cost.md, with a column for each part.
func row(first string, instances int, sum float64, parts map[string]float64, columns ...string) string {
	s := fmt.Sprintf("| %s | %d | %.1f |", first, instances, sum)
	for _, part := range columns {
		s += fmt.Sprintf(" %.1f |", parts[part])
	}
	return s
}

// fleet returns a blog with a full feed and running instances, and their bill.
func fleet(t *testing.T, instances int) (*storetest.World, *bill) {
	t.Helper()
	w := storetest.New(t)
	b := &bill{parts: map[string]float64{}}
	ada := w.AddUser("ada")
	for i := range blog.FeedKept {
		w.AddPost(ada, fmt.Sprint("post ", i))
	}
	w.Wire.After(b.add)
	for i := range instances {
		var err error
		if w.Store, err = store.New(w.NewAccount(cosmos.Options{CacheBytes: 1 << 20}),
			store.Options{Database: w.Database, Clock: w.Clock.Now,
				Instance: fmt.Sprint("instance-", i), PollInterval: time.Second}); err != nil {
			t.Fatal(err)
		}
		w.Start()
		testkit.Advance(time.Second)
	}
	testkit.Advance(10 * time.Minute) // until reservations have passed their grace period and leases are balanced
	b.take()
	return w, b
}

// The polls and leases of idle instances cost no more than a limit. Nor does a single write on any number of instances:
// the RU of five minutes with the write less those of idle minutes.
func TestCost(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for _, c := range []struct {
		instances   int
		idle        float64 // RU/s
		write, post float64 // RU; of a new post, with its entries and their counts
	}{{1, 5, 45, 65}, {3, 7, 50, 72}, {10, 15, 60, 95}} {
		cosmostest.Run(t, func(t *testing.T) {
			w, b := fleet(t, c.instances)
			idle := b.rates(10 * time.Minute)
			t.Log(row("idle, RU/s", c.instances, sum(idle), idle, "leases", listings, "polls"))
			if sum(idle) > c.idle {
				t.Errorf("%d instances cost %.2f RU/s, want at most %v", c.instances, sum(idle), c.idle)
			}
			grace := w.AddUser("grace")
			posts := w.AllUserPosts(&blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "ada")}})
			oldest, newest := posts[len(posts)-1], w.AddPost(grace, "newest")
			for _, write := range []struct {
				name  string
				do    func()
				limit float64
			}{
				{"like of one of the newest posts", func() { w.AddLike(grace, newest) }, c.write},
				{"like of an older post", func() { w.AddLike(grace, oldest) }, c.write},
				{"comment on one of the newest posts", func() { w.AddComment(grace, newest, "nice") }, c.write},
				{"post", func() { w.AddPost(grace, "new") }, c.post},
			} {
				testkit.Advance(time.Minute) // until the projections of the last write are done
				b.take()
				write.do()
				const window = 5 * time.Minute // a multiple of the periods in which leases are renewed
				testkit.Advance(window)
				parts := b.take()
				for part, rate := range idle {
					parts[part] -= rate * window.Seconds()
				}
				delete(parts, listings)
				delete(parts, metadata)
				t.Log(row(write.name, c.instances, sum(parts), parts, "request", "views", "leases", "polls"))
				if sum(parts) > write.limit {
					t.Errorf("%s: %.2f RU in all, want at most %v", write.name, sum(parts), write.limit)
				}
			}
		})
	}
}
