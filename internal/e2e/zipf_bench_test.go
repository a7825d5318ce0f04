package e2e

import (
	"flag"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/internal/load"
	"byline/store"
	"byline/store/seed"
)

var (
	zipfPosts = flag.Int("zipf.posts", 10_000, "approximate number of posts of BenchmarkZipf")
	zipfTime  = flag.Duration("zipf.duration", 5*time.Second, "duration of BenchmarkZipf")
)

// BenchmarkZipf sends the requests of readers, 99 % of them reads, to a blog of any size, with a Zipf
// distribution over posts, with caches and without.
//
//	go test ./internal/e2e -run '^$' -bench Zipf -zipf.posts 1000000 -zipf.duration 1m -timeout 1h
func BenchmarkZipf(b *testing.B) {
	if testing.Short() {
		*zipfTime = time.Second
	}
	users := max(1, *zipfPosts/20)
	blog := seed.Blog{Seed: 1, Users: users, Authors: users, Posts: [2]int{10, 30}, Comments: 4, Likes: 4,
		UserID: auth.DemoUserID}
	data := b.TempDir()
	inBlog(b, data, func(s *store.Store) error { return seed.LoadOffline(b.Context(), blog, s, nil) })
	for _, cache := range []string{"64", "0"} {
		b.Run("cache="+cache+"MB", func(b *testing.B) {
			p := startProcess(b, "--data", data, "--cache", cache)
			o := load.Options{URL: p.Root + "/graphql", Metrics: p.Root + "/metrics", Blog: blog,
				Token: func(username string) string {
					return "demo:" + username
				},
				Connections: cpuConnections, Duration: *zipfTime, Writes: 0.01, Skew: 1.1}
			b.ResetTimer()
			for b.Loop() {
				r, err := load.Run(b.Context(), o)
				if err != nil || r.Errors > 0 {
					b.Fatalf("%v %+v", err, r)
				}
				b.ReportMetric(r.PerSecond, "requests/s")
				b.ReportMetric(r.All.P50, "ms-p50")
				b.ReportMetric(r.All.P99, "ms-p99")
				b.ReportMetric(r.All.P999, "ms-p99.9")
				b.ReportMetric(r.Server.CPUMicros, "cpu-µs/request")
				b.ReportMetric(r.Server.RUPerThousand, "RU/1000-requests")
				b.ReportMetric(100*r.Server.HitRatio, "%-in-memory")
				b.ReportMetric(100*r.Server.ResponseHitRatio, "%-response-cache-hits")
				b.ReportMetric(r.Server.MemoryMB, "MB")
			}
		})
	}
}
