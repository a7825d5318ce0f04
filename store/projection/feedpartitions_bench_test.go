package projection_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/storetest"
)

// BenchmarkFeedPartitions reads a feed page of 20 posts 4,000 times a second, with 400 RU/s in each physical
// partition, and without retries. It reports the successful reads per second, their cost, and the number of
// physical partitions that served them. An operation is one second of the engine's clock, which advances with
// each request, so that the result depends on the RU budgets and not on the machine.
func BenchmarkFeedPartitions(b *testing.B) {
	for _, c := range []struct{ physical, k int }{{16, 1}, {16, 4}, {16, 16}, {16, 64}, {1, 16}} {
		b.Run(fmt.Sprintf("physical=%d/K=%d", c.physical, c.k), func(b *testing.B) {
			benchmarkFeedReads(b, c.physical, c.k)
		})
	}
}

func benchmarkFeedReads(b *testing.B, physical, k int) {
	const asked, rus = 4_000, 400 // a second
	dir := b.TempDir()
	open := func(o emulator.Options) *world {
		o.Partitions = physical
		engine, err := emulator.Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		return (&world{storetest.On(b, engine)}).withPartitions(k)
	}
	w := open(emulator.Options{NoSync: true})
	if err := w.Provision(b.Context()); err != nil {
		b.Fatal(err)
	}
	ada := w.AddUser("ada")
	for range 25 {
		if _, err := w.CreatePost(b.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "A post", Content: strings.Repeat("content ", 40)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Engine.Close(); err != nil {
		b.Fatal(err)
	}
	var passed atomic.Int64 // nanoseconds
	w = open(emulator.Options{RUs: rus, Clock: func() time.Time {
		return storetest.Epoch().Add(time.Duration(passed.Load()))
	}})
	defer w.Engine.Close()

	var charge int64
	used := map[string]bool{}
	w.Wire.After(func(r *http.Response) {
		if r.StatusCode == http.StatusOK && strings.HasSuffix(r.Request.URL.Path, "/colls/feed/docs") {
			charge += milliRU(r)
			used[r.Header.Get("x-ms-documentdb-partitionkeyrangeid")] = true
		}
	})
	ctx := cosmos.WithoutRetries(b.Context())
	second := func() (reads int) {
		for range asked {
			passed.Add(int64(time.Second) / asked)
			_, err := w.Feed(ctx, store.Paging{First: 20})
			if err == nil {
				reads++
			} else if blog.CodeOf(err) != blog.Throttled {
				b.Fatal(err)
			}
		}
		return reads
	}
	second() // uses up the unused RU of the time before
	charge = 0
	reads := 0
	for b.Loop() {
		reads += second()
	}
	b.ReportMetric(float64(reads)/float64(b.N), "reads/s")
	b.ReportMetric(float64(charge)/1000/float64(reads), "RU/read")
	b.ReportMetric(float64(len(used)), "partitions")
}

// BenchmarkFeedPartitionsWrites reports the cost of publishing a post, and of projecting the changes of a post
// within a poll.
func BenchmarkFeedPartitionsWrites(b *testing.B) {
	for _, k := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("K=%d", k), func(b *testing.B) {
			w := newWorld(b).withPartitions(k)
			ada := w.AddUser("ada")
			for range 150 {
				w.AddPost(ada, "A post")
			}
			var charge atomic.Int64
			w.Wire.After(func(r *http.Response) { charge.Add(milliRU(r)) })
			published, projected := int64(0), int64(0)
			for b.Loop() {
				before := charge.Load()
				p := w.AddPost(ada, "A post")
				published += charge.Load() - before
				w.AddLike(ada, p)
				p, err := w.Post(b.Context(), p.ID)
				if err != nil {
					b.Fatal(err)
				}
				before = charge.Load()
				if err := w.Views().ProjectSummaries(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				projected += charge.Load() - before
			}
			b.ReportMetric(float64(published)/1000/float64(b.N), "RU/post")
			b.ReportMetric(float64(projected)/1000/float64(b.N), "RU/change")
		})
	}
}
