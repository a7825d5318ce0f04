package e2e

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// mostCatchingUp is the target of BenchmarkCatchUp: the p99, relative to that of the time afterwards.
const mostCatchingUp = 1.2

// BenchmarkCatchUp measures how long requests take while the projections of the same process catch up with
// the changes of a blog, with the embedded engine and default flags. x is the ratio to the time afterwards.
// It fails if the p99 misses its target, except with -short.
//
//	go test ./internal/e2e -run '^$' -bench CatchUp -benchtime 1x -cpu.users 300
func BenchmarkCatchUp(b *testing.B) {
	quietFor := 30 * time.Second
	if testing.Short() {
		quietFor = time.Second / 2
	}
	blog := newCPUBlog(*cpuUsers)
	data := b.TempDir()
	demo := startProcess(b, "--data", data)
	demo.WaitReady()
	if err := demo.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := demo.Cmd.Wait(); err != nil { // it has released its leases
		b.Fatal(err)
	}
	seedByline(b, data) // into a database that is not empty: the projections begin before the load
	p := startProcess(b, "--data", data)
	s := newCPUSide("", p.Root, p.Cmd.Process.Pid, blog.userID, blog.postID)
	lag := func() float64 {
		all, err := scrape(p.Root)
		if err != nil {
			b.Fatal(err)
		}
		left, _ := total(all, "byline_projection_lag_transactions", nil)
		return left
	}
	began := time.Now()
	eventually(b, func() error {
		if lag() == 0 {
			return errors.New("no lag yet")
		}
		return nil
	})
	var busy []time.Duration
	for lag() > 0 {
		busy = append(busy, s.paced(b, blog, time.Second/5)...)
		if time.Since(began) > 15*time.Minute {
			b.Fatal("the projections do not catch up")
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-catching-up")
	slices.Sort(busy)
	quiet := s.paced(b, blog, quietFor)
	slices.Sort(quiet)
	report(b, busy, quiet)
	if x := percentile(busy, 99).Seconds() / percentile(quiet, 99).Seconds(); x > mostCatchingUp && !testing.Short() {
		b.Errorf("the p99 is %.2f times that of the time afterwards: the target is %.1f", x, mostCatchingUp)
	}
}

// paced sends 200 requests a second for d, reads of all patterns and a like for each nine of them, and returns how
// long they took.
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
