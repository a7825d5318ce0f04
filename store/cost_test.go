package store_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// take returns the charges since the last take, by part, and their sum.
func (b *bill) take() (parts map[string]float64, sum float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts, b.parts = b.parts, map[string]float64{}
	for _, ru := range parts {
		sum += ru
	}
	return parts, sum
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

// The polls and leases of idle instances cost no more than a limit.
func TestCost_Idle(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for _, c := range []struct {
		instances int
		limit     float64 // RU/s
	}{{1, 5}, {3, 7}, {10, 15}} {
		cosmostest.Run(t, func(t *testing.T) {
			_, b := fleet(t, c.instances)
			const idle = 10 * time.Minute
			testkit.Advance(idle)
			parts, sum := b.take()
			for part := range parts {
				parts[part] /= idle.Seconds()
			}
			sum /= idle.Seconds()
			t.Log(row("idle, RU/s", c.instances, sum, parts, "leases", listings, "polls"))
			if sum > c.limit {
				t.Errorf("%d instances cost %.2f RU/s, want at most %v", c.instances, sum, c.limit)
			}
		})
	}
}

// A single write costs no more than a limit on any number of instances: the RU of five minutes with the write
// less those of five idle minutes.
func TestCost_LoneWrite(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	const window = 5 * time.Minute                       // a multiple of the periods in which leases are renewed
	limits := map[int]float64{1: 45, 3: 50, 10: 60}      // RU, by instances, each of which polls
	likeLimits := map[int]float64{1: 54, 3: 60, 10: 74}  // of a like, with its view in the partition of the user
	postLimits := map[int]float64{1: 75, 3: 83, 10: 106} // of a new post, with its entries
	for _, instances := range slices.Sorted(maps.Keys(limits)) {
		cosmostest.Run(t, func(t *testing.T) {
			w, b := fleet(t, instances)
			grace := w.AddUser("grace")
			posts := w.AllUserPosts(&blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "ada")}})
			oldest, newest := posts[len(posts)-1], w.AddPost(grace, "newest")
			for _, c := range []struct {
				name  string
				write func()
			}{
				{"like of one of the newest posts", func() { w.AddLike(grace, newest) }},
				{"like of an older post", func() { w.AddLike(grace, oldest) }},
				{"comment on one of the newest posts", func() { w.AddComment(grace, newest, "nice") }},
				{"post", func() { w.AddPost(grace, "new") }},
			} {
				testkit.Advance(time.Minute) // until the projections of the last write are done
				b.take()
				testkit.Advance(window)
				idle, _ := b.take()
				c.write()
				testkit.Advance(window)
				parts, sum := b.take()
				for _, part := range []string{listings, metadata} {
					sum -= parts[part]
					delete(idle, part)
				}
				for part, ru := range idle {
					parts[part] -= ru
					sum -= ru
				}
				t.Log(row(c.name, instances, sum, parts, "request", "views", "leases", "polls"))
				limit := limits[instances]
				switch {
				case strings.HasPrefix(c.name, "like"):
					limit = likeLimits[instances]
				case c.name == "post":
					limit = postLimits[instances]
				}
				if sum > limit {
					t.Errorf("%s: %.2f RU in all, want at most %v", c.name, sum, limit)
				}
			}
		})
	}
}
