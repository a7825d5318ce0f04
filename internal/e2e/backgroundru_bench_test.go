package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkBackgroundRU measures the latency of requests while a rename of many items runs in the same
// instance, at several rates of --background-ru. x is the ratio to the latency without a job.
//
//	go test ./internal/e2e -run '^$' -bench BackgroundRU -benchtime 1x
func BenchmarkBackgroundRU(b *testing.B) {
	benchmarkedFor := 500 * time.Millisecond
	jobPosts, jobItems = 500, 6000 // the job lasts longer than the measurements
	if !testing.Short() {
		benchmarkedFor = 10 * time.Second
		jobPosts, jobItems = 2000, 20_000
	}
	c := newJobCluster(b)
	c.at(1).Kill() // all jobs run where the requests go
	c.at(0).Kill()
	c.rate = "100" // until the first measurement
	c.start(0)
	quiet := c.latency(b, benchmarkedFor)
	b.Run("none", func(b *testing.B) { report(b, quiet, quiet) })
	do(b, c.at(0), "busy", updateUser, map[string]any{"name": "busybody"})
	for _, rate := range []int{250, 500, 1000, 2000, 4000} {
		b.Run(fmt.Sprint(rate, "RU"), func(b *testing.B) {
			c.rate = fmt.Sprint(rate)
			if err := c.at(0).Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				b.Fatal(err)
			}
			if err := c.at(0).Cmd.Wait(); err != nil { // it has released the job
				b.Fatal(err)
			}
			c.start(0)
			idle := c.engine.charged()
			eventually(b, func() error { // the new instance has to list the jobs
				if c.engine.charged() < idle+float64(rate)/4 {
					return errors.New("the job has not resumed")
				}
				return nil
			})
			before := c.engine.charged()
			took := c.latency(b, benchmarkedFor)
			b.ReportMetric((c.engine.charged()-before)/benchmarkedFor.Seconds(), "RU/s")
			report(b, took, quiet)
		})
	}
}

// latency sends 200 requests a second for d: nine reads, then a comment. It returns their latencies, sorted.
func (c *jobCluster) latency(b *testing.B, d time.Duration) (took []time.Duration) {
	b.Helper()
	p := c.at(0)
	out, err := p.Post("reader", createUser, map[string]any{"name": "reader"})
	if err != nil {
		b.Fatal(err, out.Errors) // it may exist
	}
	post := at(b, p.Do("reader", createPost, map[string]any{"title": "t", "content": "mine"}), "createPost.post.id")
	took = paced(d, func(n int) {
		query, variables := q2, map[string]any{"id": c.post(rand.IntN(jobPosts))}
		switch {
		case n%10 == 0:
			query, variables = createComment, map[string]any{"post": post, "content": "more"}
		case n%3 == 0:
			query, variables = q6, nil
		}
		if out, err := p.Post("reader", query, variables); err != nil || out.Errors != nil {
			b.Error(err, out.Errors)
		}
	})
	slices.Sort(took)
	return took
}

// paced calls send 200 times a second for d, concurrently, with the number of the call. It returns the time of each
// call from when it was due.
func paced(d time.Duration, send func(n int)) (took []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / 200)
	defer tick.Stop()
	for n, end := 0, time.Now().Add(d); time.Now().Before(end); n++ {
		due := <-tick.C
		all.Go(func() {
			send(n)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
		})
	}
	all.Wait()
	return took
}

func report(b *testing.B, took, quiet []time.Duration) {
	for _, p := range []int{50, 99} {
		ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
		b.ReportMetric(ms(percentile(took, p)), fmt.Sprintf("p%d-ms", p))
		b.ReportMetric(ms(percentile(took, p))/ms(percentile(quiet, p)), fmt.Sprintf("p%d-x", p))
	}
	b.ReportMetric(0, "ns/op")
}
