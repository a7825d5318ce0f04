package changefeed

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Handler is called with the changes of one page, oldest first, each the item as
// it was when the page was read. It must bear seeing a change again: after an
// error, and after a crash, the page comes once more. Calls for different feed
// ranges run at the same time. It must return when ctx ends; context.Cause(ctx)
// is ErrLeaseLost if another process goes on with the range, and LeaseOf(ctx)
// says by which lease this one works.
type Handler func(ctx context.Context, items [][]byte) error

// Options of a Processor or a Tail. A Processor needs Name and Owner.
type Options struct {
	// Name distinguishes the processors that share a leases container.
	Name string

	// Owner names this process. A process that starts under the name of one that
	// died goes on with its leases at once; two that live at the same time must
	// have different names.
	Owner string

	// PollInterval is how long to wait after a page that was not full, so that the
	// changes of that time come together. A page is full that has MaxItems changes,
	// or 2 MB of them. Default 1 s.
	PollInterval time.Duration

	// MaxItems is how many changes a page has at most. Default 100.
	MaxItems int32

	// Expiry is how long a lease of this process must show no sign of life before
	// others take it. It is renewed three times as often, also while a handler is at
	// work, and work whose lease could not be renewed for so long ends. The leases
	// are balanced as often as they are renewed. Default 15 s.
	Expiry time.Duration

	// Read reads a page of a container's change feed. Default: the container's
	// ReadChangeFeed.
	Read func(context.Context, *azcosmos.ContainerClient, *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error)

	// Clock tells time. Default time.Now.
	Clock func() time.Time

	// Logger receives failures that are retried. Default: nowhere.
	Logger *slog.Logger

	// Observe is told of every page and of every failure, for metrics. It may be
	// called from several goroutines at once and must not block. Default: nobody.
	Observe func(Progress)
}

// Progress is one step of the work on a feed range. If the range was just split, a
// page has changes of one of its parts, and says nothing of the others: then Range
// is that part.
type Progress struct {
	Range azcosmos.FeedRange
	Asked time.Time     // when the page was asked for; zero after a failure
	Items int           // changes that were handled; 0 if the feed had nothing new
	Lag   int64         // transactions that were still to be read after the page
	Took  time.Duration // what the handler took
	Err   error         // why the step will be tried again, nil if it succeeded
}

func (o Options) withDefaults() Options {
	if o.PollInterval == 0 {
		o.PollInterval = time.Second
	}
	if o.MaxItems == 0 {
		o.MaxItems = 100
	}
	if o.Expiry == 0 {
		o.Expiry = 15 * time.Second
	}
	if o.Read == nil {
		o.Read = func(ctx context.Context, c *azcosmos.ContainerClient, page *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
			return c.ReadChangeFeed(ctx, page)
		}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Progress) {}
	}
	return o
}

// Names of log attributes.
const (
	logProcessor  = "processor"
	logRange      = "range"
	logGeneration = "generation"
	logError      = "error"
	logRetryIn    = "retryIn"
)

// Processor follows the change feed of a container, and shares the work with all
// processors of the same name.
type Processor struct {
	reader reader
	leases leases
	handle Handler
	o      Options

	wg      sync.WaitGroup // of workers
	mu      sync.Mutex
	workers map[string]*worker // guarded by mu; by lease, also while one is being made

	lost chan struct{} // holds a token when a lease was lost since the last round

	sightings map[string]*sighting // of Run's own goroutine
}

// New returns a Processor that hands the changes of source to handle and keeps
// its leases in the leases container.
func New(source, leaseContainer *azcosmos.ContainerClient, handle Handler, o Options) (*Processor, error) {
	if o.Name == "" || o.Owner == "" {
		return nil, errors.New("changefeed: Name and Owner are required")
	}
	o = o.withDefaults()
	o.Logger = o.Logger.With(logProcessor, o.Name)
	return &Processor{reader: reader{source, o}, leases: leases{leaseContainer, o.Name, o.Clock}, handle: handle, o: o,
		workers: map[string]*worker{}, lost: make(chan struct{}, 1), sightings: map[string]*sighting{}}, nil
}

// Run processes changes until ctx ends, and then returns nil. What goes wrong
// meanwhile is logged and tried again. It must not be called twice at a time.
func (p *Processor) Run(ctx context.Context) error {
	defer p.wg.Wait()
	var retry backoff
	for {
		wait := p.o.Expiry / 3
		wait -= rand.N(wait/4 + 1) // so that processes which started together do not stay together
		expiry, err := p.round(ctx)
		if err == nil {
			retry.reset()
			wait = min(wait, expiry)
		} else if ctx.Err() == nil {
			d, _ := retry.after(err)
			p.o.Logger.Warn("leases not balanced", logError, err, logRetryIn, d)
			wait = min(wait, d)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-p.lost:
			t.Stop()
		case <-t.C:
		}
	}
}

// round looks at all leases, and brings them and this process's share into order.
// It returns how long it takes until the first of the others' leases expires
// unless its owner renews it.
func (p *Processor) round(ctx context.Context) (expiry time.Duration, err error) {
	expiry = p.o.Expiry
	ranges, err := p.reader.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return 0, err
	}
	all, err := p.leases.complete(ctx, ranges)
	if err != nil {
		return 0, err
	}
	now, live, sightings := p.o.Clock(), map[string]bool{}, map[string]*sighting{}
	for _, v := range all {
		seen := p.sightings[v.ID]
		if seen == nil {
			seen = &sighting{}
		}
		sightings[v.ID] = seen
		remains := seen.remains(v, now)
		switch {
		case v.Owner == "":
		case v.Owner == p.o.Owner:
			live[v.ID] = p.works(v.ID)
		case remains > 0:
			live[v.ID] = true
			expiry = min(expiry, remains)
		}
	}
	p.sightings = sightings
	if all, err = p.tidy(ctx, ranges, all, live); err != nil {
		return 0, err
	}
	if err := p.merge(ctx, ranges, all, live); err != nil {
		return 0, err
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	take, steal := balance(all, p.o.Owner, func(v *lease) bool { return live[v.ID] })
	if steal != nil {
		take = append(take, steal)
	}
	for _, v := range take {
		if p.works(v.ID) {
			continue // a split has begun with it since the listing
		}
		taken, err := p.leases.take(ctx, v, p.o.Owner, p.o.Expiry, v == steal)
		if err != nil {
			return 0, err
		}
		if taken != nil {
			p.work(ctx, taken)
		}
	}
	return expiry, nil
}
