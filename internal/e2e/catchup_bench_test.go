package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"byline/store"
	"byline/store/seed"
)

// maxCatchUpRatio is the target of BenchmarkCatchUp: the ratio of the p99 during the catch-up to the p99 after it.
const maxCatchUpRatio = 1.2

// BenchmarkCatchUp measures the latency of requests while the projections of the same process catch up with the
// changes of a blog, with the embedded engine and default flags. x is the ratio to the latency afterwards. It fails if
// the p99 misses its target, except with -short. The p99 is the median of those of 10 s each, so that a stall of the
// machine counts once; x-all is the ratio of all requests.
//
//	go test ./internal/e2e -run '^$' -bench 'CatchUp$' -benchtime 1x -cpu.users 200
func BenchmarkCatchUp(b *testing.B) {
	window, quietWindows := 10*time.Second, 6
	if testing.Short() {
		window, quietWindows = time.Second/2, 1
	}
	c := startCatchUp(b)
	var busy, quiet windows
	for c.lag(b) > 0 {
		busy.add(window, time.Since(c.began), c.paced(b, c.blog, time.Second/5))
		if time.Since(c.began) > 15*time.Minute {
			b.Fatal("the projections do not catch up")
		}
	}
	b.ReportMetric(time.Since(c.began).Seconds(), "s-catching-up")
	for range quietWindows {
		quiet = append(quiet, c.paced(b, c.blog, window))
	}
	for _, p := range []int{50, 99} {
		took := busy.percentile(p)
		b.ReportMetric(took.Seconds()*1000, fmt.Sprintf("p%d-ms", p))
		b.ReportMetric(took.Seconds()/quiet.percentile(p).Seconds(), fmt.Sprintf("p%d-x", p))
	}
	b.ReportMetric(busy.all(99).Seconds()/quiet.all(99).Seconds(), "p99-x-all")
	b.ReportMetric(0, "ns/op")
	if x := busy.percentile(99).Seconds() / quiet.percentile(99).Seconds(); x > maxCatchUpRatio && !testing.Short() {
		b.Errorf("the p99 is %.2f times the p99 afterwards: the target is %.1f", x, maxCatchUpRatio)
	}
}

// windows are latencies, by periods of the same length.
type windows [][]time.Duration

// add adds latencies measured at a time since the start.
func (w *windows) add(length, at time.Duration, took []time.Duration) {
	i := int(at / length)
	for len(*w) <= i {
		*w = append(*w, nil)
	}
	(*w)[i] = append((*w)[i], took...)
}

// percentile returns the median of the windows' percentiles.
func (w windows) percentile(p int) time.Duration {
	var of []time.Duration
	for _, took := range w {
		if len(took) > 0 {
			of = append(of, percentile(slices.Sorted(slices.Values(took)), p))
		}
	}
	return percentile(slices.Sorted(slices.Values(of)), 50)
}

// all returns the percentile of all latencies.
func (w windows) all(p int) time.Duration {
	return percentile(slices.Sorted(slices.Values(slices.Concat(w...))), p)
}

// maxCatchUpWithWrites is the target of BenchmarkCatchUp_Writes.
const maxCatchUpWithWrites = time.Minute

// BenchmarkCatchUp_Writes measures how long the projections take to catch up with the changes of a blog while 16
// clients like posts as fast as they can. It fails if that misses its target, except with -short.
//
//	go test ./internal/e2e -run '^$' -bench CatchUp_Writes -benchtime 1x -cpu.users 200
func BenchmarkCatchUp_Writes(b *testing.B) {
	c, sent := startCatchUp(b), 0
	for c.lag(b) > 0 {
		sent += len(c.send(b, cpuPatterns[7], c.blog, cpuConnections, 500))
		if took := time.Since(c.began); took > maxCatchUpWithWrites && !testing.Short() || took > 15*time.Minute {
			b.Fatalf("after %v the projections are %v transactions behind", took, c.lag(b))
		}
	}
	took := time.Since(c.began).Seconds()
	b.ReportMetric(took, "s-catching-up")
	b.ReportMetric(float64(sent)/took, "likes/s")
	b.ReportMetric(0, "ns/op")
}

// catchUp is a server whose projections catch up with the changes of a blog.
type catchUp struct {
	*cpuSide
	blog  *cpuBlog
	began time.Time // of the server
}

func startCatchUp(b *testing.B) *catchUp {
	blog := newCPUBlog(*cpuUsers)
	data := b.TempDir()
	inBlog(b, data, func(s *store.Store) error { // unlike byline seed, after which the projections have nothing to do
		return seed.Load(b.Context(), blog.Blog, s, nil)
	})
	began := time.Now()
	p := startProcess(b, "--data", data)
	c := &catchUp{newCPUSide("", p.Root, p.Cmd.Process.Pid, blog.userID, blog.postID), blog, began}
	eventually(b, func() error {
		if c.lag(b) == 0 {
			return errors.New("no lag yet")
		}
		return nil
	})
	return c
}

// lag returns how many transactions the projections are behind.
func (c *catchUp) lag(b *testing.B) float64 {
	all, err := scrape(c.root)
	if err != nil {
		b.Fatal(err)
	}
	left, _ := total(all, "byline_projection_lag_transactions", nil)
	return left
}

// paced sends 200 requests a second for d, reads of all patterns and a like for each nine of them, and returns their
// latencies.
func (s *cpuSide) paced(b *testing.B, blog *cpuBlog, d time.Duration) []time.Duration {
	reads, like := cpuPatterns[:6], cpuPatterns[7]
	return paced(d, func(n int) {
		p := reads[n%len(reads)]
		if n%10 == 0 {
			p = like
		}
		user, body := blog.request(p, s, rand.IntN(1<<30))
		s.do(b, user, body)
	})
}
