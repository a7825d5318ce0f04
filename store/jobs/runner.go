package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/cosmos"
)

// Options of a Runner. Owner and Kinds are required.
type Options struct {
	Owner   string                // names this process; running processes need different names
	Kinds   map[string]Work       // what to do, by kind; jobs of other kinds are left alone
	RU      float64               // RU per second for all jobs of the Runner together; 0: unlimited
	Pattern cosmos.Pattern        // of the requests; default: none
	Clock   func() time.Time      // dates jobs; default time.Now
	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: a registry that nobody reads
	Skipped func([]byte, error)   // is called with items that are no jobs although they have a kind; default: nobody is
}

// Runner works on the jobs of a leases container.
type Runner struct {
	leases *cosmos.Container
	o      Options
}

// New returns a Runner on the container of leases, which should be one of Account.Background.
func New(leases *cosmos.Container, o Options) (*Runner, error) {
	return &Runner{leases: leases, o: o}, nil
}

// Enqueue creates a job. One that exists begins again, in a new generation.
func (r *Runner) Enqueue(ctx context.Context, kind, subject string) error { return nil }

// Run works on jobs until ctx ends. It returns nil then.
func (r *Runner) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// List returns all jobs, also those of kinds that the Runner does not know.
func (r *Runner) List(ctx context.Context) ([]Job, error) { return nil, nil }
