package store_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"golang.org/x/sync/errgroup"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// load writes items of one partition without the store, 100 in a batch.
func (w *world) load(container, partition string, n int, item func(int) []byte) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(4)
	for from := 0; from < n; from += cosmos.MaxBatch {
		g.Go(func() error {
			b := c.NewTransactionalBatch(azcosmos.NewPartitionKeyString(partition))
			for i := range min(cosmos.MaxBatch, n-from) {
				b.CreateItem(item(from+i), nil)
			}
			r, err := c.ExecuteTransactionalBatch(w.T.Context(), b, nil)
			if err == nil && !r.Success {
				err = fmt.Errorf("item %d of %s is not written", from, partition)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		w.T.Fatal(err)
	}
}

// BenchmarkHome_ColdIndex loads the index of a timeline of five months, as the first reader of a process does who
// follows nobody with a post.
//
//	go test ./store -run '^$' -bench Home_ColdIndex -benchtime 1x
func BenchmarkHome_ColdIndex(b *testing.B) {
	cosmostest.NeedsEngine(b, "its charges")
	sizes := []int{100_000, 1_000_000}
	if testing.Short() {
		sizes = []int{10_000}
	}
	for _, posts := range sizes {
		b.Run(fmt.Sprint(posts), func(b *testing.B) {
			w := newWorld(b)
			const months = 5
			timeline := blog.NewTimelineItem(blog.AllPosts)
			for month := range months {
				began := time.Date(2025, time.Month(10+month), 1, 0, 0, 0, 0, time.UTC)
				key := blog.NewDate(began).Month()
				timeline.Months[key] = int64(posts / months)
				w.load(blog.FeedContainer, blog.AllPosts.Partition(key), posts/months, func(i int) []byte {
					n := month*posts/months + i
					p := &blog.Post{ID: blog.PostID([10]byte{byte(n), byte(n >> 8), byte(n >> 16)}),
						Byline:    blog.Byline{UserID: blog.UserID("test", fmt.Sprint(n%10_000))},
						CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Second))}
					return blog.Encode(blog.NewEntry(p, blog.AllPosts))
				})
			}
			w.load(blog.FeedContainer, blog.TimelinesKey, 1, func(int) []byte { return blog.Encode(timeline) })
			ada := w.AddUser("ada")
			w.addFollows(ada, unknownAuthors(20)...)
			var mu sync.Mutex
			var ru float64 // guarded by mu
			w.Wire.After(func(r *http.Response) {
				charge, _ := strconv.ParseFloat(r.Header.Get("x-ms-request-charge"), 64)
				if strings.Contains(r.Request.URL.Path, "/colls/feed/") {
					mu.Lock()
					defer mu.Unlock()
					ru += charge
				}
			})
			var bytes int
			for b.Loop() {
				s := w.instance("cold", 1<<20, store.Options{Recency: posts + 1})
				for recentPosts(s) < posts {
					if _, err := s.Home(b.Context(), ada.UserID, store.Paging{First: 20}); err != nil {
						b.Fatal(err)
					}
				}
				_, bytes = store.Recent(s)
			}
			b.ReportMetric(ru/float64(b.N), "RU")
			b.ReportMetric(float64(bytes), "B")
			b.ReportMetric(float64(bytes)/float64(posts), "B/post")
		})
	}
}

// BenchmarkHome_Publish publishes posts of an author with followers through one instance, while the home feed of one of
// them is open on another: the charge of the mutation, and how long the post takes to arrive.
//
//	go test ./store -run '^$' -bench Home_Publish -benchtime 200x
func BenchmarkHome_Publish(b *testing.B) {
	cosmostest.NeedsEngine(b, "its charges")
	most := 100_000
	if testing.Short() {
		most = 1000
	}
	for _, followers := range []int{0, most} {
		b.Run(fmt.Sprintf("%d followers", followers), func(b *testing.B) {
			w := newWorld(b)
			ada, bob := w.AddUser("ada"), w.AddUser("bob")
			w.AddPost(bob, "first")
			w.load(blog.UsersContainer, bob.UserID, followers, func(i int) []byte {
				name := fmt.Sprint("user", i)
				return blog.Encode(blog.NewFollow(bob.UserID,
					blog.Byline{UserID: blog.UserID("test", name), Username: name}, blog.NewDate(storetest.Epoch()), 1))
			})
			w.addFollows(ada, bob.UserID)
			poll := store.Options{PollInterval: 100 * time.Millisecond}
			one, two := w.instance("one", 8<<20, poll), w.instance("two", 8<<20, poll)
			s, err := two.HomePublished(b.Context(), ada.UserID)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			r := &requested{}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				p, err := one.CreatePost(r.in(b.Context()), store.NewPost{AuthorID: bob.UserID, Title: "news", Content: "text"})
				if err != nil {
					b.Fatal(err)
				}
				if got := testkit.Receive(b, s.Events()); got.ID != p.ID {
					b.Fatalf("got %s, want %s", got.ID, p.ID)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(r.ru/float64(b.N), "RU/post")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
		})
	}
}
