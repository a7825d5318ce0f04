package changefeed

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Handler receives the changes of one page, oldest first: each is the item as of the read. Pages
// are repeated after an error, a crash, a change of owner, a merge and Reset, so a Handler must be
// idempotent. Calls for different feed ranges run concurrently. It must return when ctx ends.
type Handler func(ctx context.Context, items [][]byte) error

// Options of a Processor or a Tail. A Processor needs Name and Owner.
type Options struct {
	// Name distinguishes the processors that share a leases container.
	Name string

	// Owner names this process. A process that restarts under the same name resumes its leases at
	// once. Processes that run at the same time need different names.
	Owner string

	// PollInterval is the shortest wait after a page that was not full. A page is full with MaxItems
	// changes, or with 2 MB of them. Default 1 s.
	PollInterval time.Duration

	// IdleInterval is the longest wait while nothing changes: waits double up to it. Default
	// PollInterval.
	IdleInterval time.Duration

	// Wake ends a wait while nothing changes, as soon as PollInterval has passed. Default: none.
	Wake *Signal

	// Settle is the wait after a page with changes, so that repeated changes of an item are handled
	// together. Default PollInterval.
	Settle time.Duration

	// Hurry ends that wait as soon as PollInterval has passed. Default: none.
	Hurry *Signal

	// Unwatched reports that no reader needs changes now: then a Tail waits at least for UnwatchedInterval, or
	// for Wake. Otherwise it waits for a second at most, or for PollInterval. It must not block. Default: none;
	// then IdleInterval is the longest wait.
	Unwatched func() bool

	// UnwatchedInterval is the shortest wait of an unwatched Tail. Default 30 s.
	UnwatchedInterval time.Duration

	// MaxItems is the largest number of changes in a page. A Processor begins with pages of 100.
	// Default 100.
	MaxItems int32

	// Expiry is how long a lease stays valid without a write. It is renewed at half of that, also
	// while a handler runs; work whose lease could not be renewed in time is canceled. Leases are
	// rebalanced as often as they are renewed (a quarter as often by a process that holds all of
	// them), and as soon as pages come from another physical partition. Default 15 s.
	Expiry time.Duration

	// Clock returns the current time. Default time.Now.
	Clock func() time.Time

	// Logger receives changes of ownership and retried failures. Default: discard.
	Logger *slog.Logger

	// Observe is called after every page and every failure, for metrics. It may be called
	// concurrently and must not block. Default: none.
	Observe func(Progress)
}

// Progress is one step in a feed range. The first page after a split has changes of one part only;
// Range is that part.
type Progress struct {
	Range azcosmos.FeedRange
	Began time.Time     // start of the read; zero after a failure
	Items int           // changes handled; 0 if there were none
	Lag   int64         // transactions left in the range after the page
	Took  time.Duration // duration of the handler
	Err   error         // cause of the retry; nil after a page
}

func (o Options) withDefaults() Options {
	if o.PollInterval == 0 {
		o.PollInterval = time.Second
	}
	o.IdleInterval, o.Settle = max(o.IdleInterval, o.PollInterval), max(o.Settle, o.PollInterval)
	if o.UnwatchedInterval == 0 {
		o.UnwatchedInterval = 30 * time.Second
	}
	if o.MaxItems == 0 {
		o.MaxItems = 100
	}
	if o.Expiry == 0 {
		o.Expiry = 15 * time.Second
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
	logLSN        = "lsn"
	logCheckpoint = "checkpoint"
)

// Processor delivers the change feed of a container to a Handler, sharing the feed ranges with all
// processors of the same name.
//
// A checkpoint is written with each renewal of the lease. It is written earlier if 100 changes or
// 250 ms of work are unsaved, at most once a second, and if any change is unsaved
// for 10 s, or 100 PollIntervals if that is less. A crash
// repeats the changes since the last checkpoint. A failed page is retried with backoff, as smaller
// pages, until it succeeds: a handler must itself skip items that it can never handle. A throttled
// range (429) pauses for the retry-after interval.
//
// A lease is created if it does not exist, and changed or removed only by a conditional write on
// its ETag. Every change of owner raises its generation. It has expired if it has not changed for
// its owner's Options.Expiry, measured by the clock of the process that wants it, so that clocks
// need not agree. An owner that finds its lease changed, or cannot renew it in time, stops working
// on the range, and its checkpoints are refused.
type Processor struct {
	reader reader
	leases leases
	handle Handler
	o      Options

	wg      sync.WaitGroup // of workers
	mu      sync.Mutex
	workers map[string]*worker // guarded by mu; by lease id, reserved ones included

	stale chan struct{} // signals that leases were lost or feed ranges have changed

	sightings map[string]*sighting // owned by Run
}

// New returns a Processor that reads source and keeps its leases in leaseContainer.
func New(source, leaseContainer Container, handle Handler, o Options) (*Processor, error) {
	if o.Name == "" || o.Owner == "" {
		return nil, errors.New("changefeed: Name and Owner are required")
	}
	o = o.withDefaults()
	o.Logger = o.Logger.With(logProcessor, o.Name)
	return &Processor{reader: reader{strictContainer{source}, o}, leases: leases{leaseContainer, o.Name, o.Clock},
		handle: handle, o: o,
		workers: map[string]*worker{}, stale: make(chan struct{}, 1), sightings: map[string]*sighting{}}, nil
}

// Run processes changes until ctx ends, and then returns nil. Failures are logged and retried. Run
// must not be called twice at a time.
func (p *Processor) Run(ctx context.Context) error {
	defer p.wg.Wait()
	var retry backoff
	for {
		expiry, all, err := p.rebalance(ctx)
		wait := p.o.Expiry / 2
		if all {
			wait *= 4 // other processes steal their share
		}
		wait -= rand.N(wait/4 + 1) // jitter
		if err == nil {
			retry.reset()
			if !all {
				wait = min(wait, expiry)
			}
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
		case <-p.stale:
			t.Stop()
		case <-t.C:
		}
	}
}

// rebalance lists the leases, repairs their ranges and takes this process's share. It returns the
// time until the first lease of another process can expire, and whether this process works on all.
func (p *Processor) rebalance(ctx context.Context) (expiry time.Duration, holdsAll bool, err error) {
	expiry = p.o.Expiry
	ranges, err := p.reader.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return 0, false, err
	}
	all, err := p.leases.complete(ctx, ranges)
	if err != nil {
		return 0, false, err
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
	if all, err = p.removeReplaced(ctx, ranges, all, live); err != nil {
		return 0, false, err
	}
	if err := p.merge(ctx, ranges, all, live); err != nil {
		return 0, false, err
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	take, steal := balance(all, p.o.Owner, func(v *lease) bool { return live[v.ID] })
	if steal != nil {
		take = append(take, steal)
	}
	for _, v := range take {
		if p.works(v.ID) {
			continue // a split reserved it since the listing
		}
		taken, err := p.leases.take(ctx, v, p.o.Owner, p.o.Expiry, v == steal)
		if err != nil {
			return 0, false, err
		}
		if taken != nil {
			p.work(ctx, taken)
		}
	}
	holdsAll = len(all) == len(ranges) && !slices.ContainsFunc(all, func(v *lease) bool { return !p.works(v.ID) })
	return expiry, holdsAll, nil
}
