package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"byline/store/seed"
)

// Options of Run. All but Writes and Metrics are required.
type Options struct {
	URL     string // of the server's /graphql
	Metrics string // URL of the server's metrics; "" for none

	// Blog is the data set of the server, or a prefix of it.
	Blog seed.Blog

	// Token returns the bearer token of a user who writes.
	Token func(username string) string

	Connections int
	Duration    time.Duration
	Writes      float64 // the share of requests that write, from 0 to 1

	// Skew is the exponent of Zipf's law, over 1: the post of rank r is requested in
	// proportion to r to the power of -Skew.
	Skew float64
}

func (o Options) check() error {
	switch {
	case o.Connections < 1:
		return errors.New("load: there must be a connection")
	case o.Duration <= 0:
		return errors.New("load: the duration must be over 0")
	case !(o.Writes >= 0 && o.Writes <= 1):
		return errors.New("load: the share of writes must be from 0 to 1")
	case !(o.Skew > 1) || math.IsInf(o.Skew, 1):
		return errors.New("load: the skew must be a number over 1")
	case o.Blog.TotalPosts() == 0:
		return errors.New("load: the blog has no posts")
	}
	return nil
}

// Latencies are recorded from a microsecond to a minute, to three digits.
const (
	shortest = 1
	longest  = 60_000_000
	digits   = 3
)

// worker is one connection. Workers share nothing but the run.
type worker struct {
	run     *run
	client  *http.Client
	random  *rand.Rand
	popular *rand.Zipf
	took    map[string]*hdrhistogram.Histogram // microseconds, by pattern
	errors  int
	example error // of the errors
}

// run is the state that the workers share.
type run struct {
	Options
	mix   []pattern
	posts []int // by user, the number of posts of the users before
	total int   // posts

	// stride is coprime to total: its multiples visit all posts, in an order independent of theirs.
	stride uint64
}

// Run sends requests until Options.Duration is over, or ctx ends, which is no error, and waits
// for those in flight, unless ctx has ended. Requests that fail, or take over a minute, are
// counted; if all do, Run returns an error. If the metrics cannot be read at the end, it returns the
// report and an error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &run{Options: o, mix: mixOf(o.Writes), posts: make([]int, o.Blog.Authors)}
	for i := range r.posts {
		r.posts[i] = r.total
		r.total += o.Blog.PostCount(i)
	}
	for r.stride = uint64(float64(r.total)*goldenRatio) + 1; gcd(r.stride, uint64(r.total)) > 1; {
		r.stride++
	}
	before, err := scrape(ctx, o.Metrics)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: o.Connections, MaxConnsPerHost: o.Connections}
	defer transport.CloseIdleConnections()
	limited, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	workers := make([]*worker, o.Connections)
	var all sync.WaitGroup
	began := time.Now()
	for i := range workers {
		random := rand.New(rand.NewPCG(o.Blog.Seed, uint64(i)))
		workers[i] = &worker{run: r, client: &http.Client{Transport: transport, Timeout: longest * time.Microsecond},
			random:  random,
			popular: rand.NewZipf(random, o.Skew, 1, uint64(r.total-1)), took: map[string]*hdrhistogram.Histogram{}}
		all.Go(func() { workers[i].work(ctx, limited) })
	}
	all.Wait()
	took := time.Since(began)
	after, err := scrape(context.WithoutCancel(ctx), o.Metrics)
	report, failed := newReport(workers, took, before, after)
	return report, errors.Join(failed, err)
}

const goldenRatio = 0.6180339887

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// work sends requests until limited ends, and waits for the response to the last: slow requests are most likely to
// be in flight at the end. If ctx ends, it does not wait.
func (w *worker) work(ctx, limited context.Context) {
	for limited.Err() == nil {
		p := w.pick()
		body, token := p.request(w)
		began := time.Now()
		err := w.send(ctx, body, token)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return // aborted
		case err != nil:
			w.errors++
			w.example = fmt.Errorf("%s: %w", p.name, err)
			continue
		}
		h := w.took[p.name]
		if h == nil {
			h = hdrhistogram.New(shortest, longest, digits)
			w.took[p.name] = h
		}
		_ = h.RecordValue(min(max(took.Microseconds(), shortest), longest))
	}
}
