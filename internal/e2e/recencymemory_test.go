package e2e

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/account"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// TestMemory_LargestIndex attacks a small instance that has the largest index of --recency, on an engine outside of it.
// Without the variable, the index is a tenth of the default one.
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestMemory_LargestIndex -v
func TestMemory_LargestIndex(t *testing.T) {
	testkit.Heavy(t)
	posts := testkit.Pick(10_000, 1_000_000)
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	loadTimeline(t, server.URL, posts)

	s := startSmall(t, "--cosmos-endpoint", server.URL, "--recency", "1000000")
	for _, name := range []string{"bob", "cyd"} {
		s.Do(name, createUser, map[string]any{"name": name})
	}
	bob := at(t, s.Do("bob", `{ viewer { id } }`, nil), "viewer.id")
	s.Do("cyd", `mutation($id: ID!) { followUser(input: {id: $id}) { user { id } } }`, map[string]any{"id": bob})
	began, quiet := time.Now(), s.peak()
	for request := 0; ; request++ { // cyd follows nobody with a post, so that every page extends the index
		s.Do("cyd", fmt.Sprintf(`{ viewer { h%d: home(first: 100) { edges { node { title } } } } }`, request), nil)
		all, err := scrape(s.Root)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := total(all, "byline_recency_posts", nil)
		if int(n) >= posts {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("the index has %.0f posts", n)
		}
	}
	t.Logf("%d posts after %v: at most %d MB, before %d", posts, time.Since(began).Round(time.Millisecond),
		s.peak()>>20, quiet>>20)
	t.Run("slow readers", func(t *testing.T) {
		s.during(t, func(t *testing.T) {
			codes, _ := s.slowReaders(t, 150, "", `{ response: feed(first: 80) { edges { node { content } } } }`, nil)
			if codes["OK"] == 0 || codes["OK"]+codes["UNAVAILABLE"] != 150 {
				t.Error(codes)
			}
		})
	})
}

// loadTimeline writes the entries of so many posts of former months to the timeline of all posts, without the posts.
func loadTimeline(t *testing.T, endpoint string, posts int) {
	t.Helper()
	flags := account.Flags{CosmosEndpoint: endpoint, CosmosDatabase: "blog"}
	db, err := flags.Open(t.Context(), testkit.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	blogStore, err := flags.Loader(db, testkit.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := blogStore.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed, err := db.Account.Container("blog", blog.FeedContainer)
	if err != nil {
		t.Fatal(err)
	}
	write := func(partition string, items ...[]byte) error {
		var b cosmos.Batch
		for _, item := range items {
			b.Create(item)
		}
		r, err := feed.Batch(t.Context(), partition, &b)
		return cmp.Or(err, r.Err())
	}
	const months = 5
	each := posts / months
	timeline, now := blog.NewTimelineItem(blog.AllPosts), time.Now().UTC()
	timeline.Posts = int64(posts)
	var g errgroup.Group
	g.SetLimit(4)
	for month := range months {
		began := time.Date(now.Year(), now.Month()-time.Month(months-month), 1, 0, 0, 0, 0, time.UTC)
		key := blog.NewDate(began).Month()
		partition := blog.AllPosts.Partition(key)
		timeline.Months[key] = int64(each)
		g.Go(func() error {
			return write(partition, blog.Encode(
				blog.CounterItem{Envelope: blog.Envelope{Type: partition}, ID: blog.CounterID, Posts: int64(each)}))
		})
		for from := 0; from < each; from += cosmos.MaxBatch {
			g.Go(func() error {
				var entries [][]byte
				for i := from; i < min(from+cosmos.MaxBatch, each); i++ {
					n := month*each + i
					p := &blog.Post{ID: blog.PostID([10]byte{byte(n), byte(n >> 8), byte(n >> 16)}),
						Byline:    blog.Byline{UserID: blog.UserID("test", fmt.Sprint(n%10_000))},
						CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Second))}
					entries = append(entries, blog.Encode(blog.NewEntry(p, blog.AllPosts)))
				}
				return write(partition, entries...)
			})
		}
	}
	if err := cmp.Or(g.Wait(), write(blog.TimelinesKey, blog.Encode(timeline))); err != nil {
		t.Fatal(err)
	}
}
