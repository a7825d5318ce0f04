package e2e

import (
	"errors"
	"flag"
	"log/slog"
	"testing"
	"time"

	"byline/bench/load"
	"byline/graph/auth"
	"byline/internal/account"
	"byline/store/emulator"
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
	blog := seed.Blog{Seed: 1, Users: users, Authors: users, Posts: [2]int{10, 30}, Comments: 4, Likes: 4, UserID: auth.DemoUserID}
	config := account.Flags{Data: b.TempDir(), CosmosDatabase: "blog", FeedPartitions: 1}
	log := slog.New(slog.DiscardHandler)
	db, err := config.Open(b.Context(), log, account.Options{Engine: emulator.Options{NoSync: true}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := config.Loader(db, log)
	if err == nil {
		err = s.Provision(b.Context())
	}
	if err == nil {
		err = s.Views().FillFeed(b.Context())
	}
	if err == nil {
		err = seed.Load(b.Context(), blog, s, nil)
	}
	err = errors.Join(err, db.Close())
	if err != nil {
		b.Fatal(err)
	}
	for _, cache := range []string{"64", "0"} {
		b.Run("cache="+cache+"MB", func(b *testing.B) {
			p := startProcess(b, "--data", config.Data, "--cache", cache)
			o := load.Options{URL: p.Root + "/graphql", Metrics: p.Root + "/metrics", Blog: blog, Token: func(username string) string { return "demo:" + username },
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
