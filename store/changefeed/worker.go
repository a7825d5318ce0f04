package changefeed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// worker processes one range while this process holds its lease.
type worker struct {
	stop context.CancelCauseFunc // guarded by Processor.mu; nil until launched
	done chan struct{}           // closed when the worker has ended
	lag  atomic.Int64            // transactions left after the last page
	page atomic.Int64            // when that page was handled, or the worker launched, in Unix nanoseconds

	// Owned by the worker's goroutine until done:
	resets  int64         // of the lease at launch
	at      string        // the continuation
	version int64         // of the session token that came with it
	rangeID string        // the id of the partition key range that was read
	began   time.Time     // when it was launched
	saved   time.Time     // time of the last checkpoint
	unsaved int           // changes handled since
	spent   time.Duration // time that handlers took since
	pace    pace          // of polls
	pages   pages
	parts   []part    // of the range, after a split
	behind  time.Time // since when the region has been behind the continuation after a failover; zero: it is not
	rewound time.Time // when the next page begins, in place of the continuation; zero: it does not
}

// part is a worker reserved for a new lease.
type part struct {
	worker *worker
	lease  *lease
}

// Reasons for a worker to end, besides shutdown and a lost lease.
var (
	errSplit  = errors.New("the range was split")
	errMerged = errors.New("the range is being merged")
)

// Work that is worth a checkpoint of its own, at most once in checkpointEvery. Less work waits for the
// next renewal, which saves it, too, but no longer than checkpointLate or 100 polls: repeating it costs
// less than a write.
const (
	checkpointItems = 100
	checkpointWork  = 250 * time.Millisecond
	checkpointEvery = time.Second
	checkpointLate  = 10 * time.Second
)

// due reports whether the work must be saved. A young worker saves more often, so that processes
// that are killed soon after they start make progress, too.
func (w *worker) due(now time.Time, o Options) bool {
	age := now.Sub(w.saved)
	return (w.unsaved >= checkpointItems || w.spent >= checkpointWork) && age >= min(checkpointEvery, now.Sub(w.began)/2) ||
		w.unsaved > 0 && age >= min(checkpointLate, 100*o.PollInterval)
}

// Lease identifies the owner of a feed range.
type Lease struct {
	Range azcosmos.FeedRange
	Owner string // "" if free

	// Generation is raised by every change of owner, and not reused for a range unless its lease is
	// deleted. Use it as a fencing token.
	Generation int64
}

func (v *lease) public() Lease { return Lease{v.feedRange(), v.Owner, v.Generation} }

type leaseKey struct{}
type replayKey struct{}
type repeatKey struct{}

// Repeated reports whether a Processor called the handler with changes that may have been handled
// before: those after the last checkpoint of a lease that was taken, those of a failed page, and those
// from shortly before a failover.
func Repeated(ctx context.Context) bool { return ctx.Value(repeatKey{}) != nil }

// Replaying reports whether a Processor called the handler with changes that are repeated because
// of Reset. The last such page may contain new ones, too.
func Replaying(ctx context.Context) bool { return ctx.Value(replayKey{}) != nil }

// LeaseOf returns the lease under which a Processor called the handler whose context ctx is. It reports
// false for other contexts.
func LeaseOf(ctx context.Context) (Lease, bool) {
	v, ok := ctx.Value(leaseKey{}).(Lease)
	return v, ok
}

// works reports whether this process works on a lease or has reserved it.
func (p *Processor) works(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[id] != nil
}

// Held returns the number of leases that this process holds, and how many transactions their ranges
// had left after the last page of each.
func (p *Processor) Held() (leases int, lag int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.stop != nil {
			leases++
			lag += w.lag.Load()
		}
	}
	return leases, lag
}

// Stalled returns how long ago a page was last handled, of the range that this process owns for which
// it is longest; 0 if it owns none. A page without changes counts, too.
func (p *Processor) Stalled() (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.stop != nil {
			longest = max(longest, p.o.Clock().Sub(time.Unix(0, w.page.Load())))
		}
	}
	return longest
}

// reserve blocks a lease for a worker that is launched or dropped later.
func (p *Processor) reserve(id string) (*worker, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[id] != nil {
		return nil, false
	}
	w := &worker{done: make(chan struct{})}
	p.workers[id] = w
	return w, true
}

func (p *Processor) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.workers, id)
}

// work starts a worker for a lease that was just taken.
func (p *Processor) work(ctx context.Context, v *lease) {
	if w, ok := p.reserve(v.ID); ok {
		p.launch(ctx, w, v)
	}
}

// launch starts a reserved worker. After it has split its range, it launches the workers of the
// parts.
func (p *Processor) launch(run context.Context, w *worker, v *lease) {
	ctx, stop := context.WithCancelCause(run)
	w.page.Store(p.o.Clock().UnixNano())
	p.mu.Lock()
	w.stop = stop
	p.mu.Unlock()
	w.at, w.version, w.resets = v.Continuation, v.Version, v.Resets
	w.began, w.pages = p.o.Clock(), newPages(p.o.MaxItems)
	w.saved = w.began
	h := &held{leases: p.leases, r: v.feedRange(), expiry: p.o.Expiry, writing: make(chan struct{}, 1), lease: *v, at: v.Continuation, version: v.Version, until: v.Until}
	h.watchdog = time.AfterFunc(h.remains(), func() { stop(errLeaseLost) })
	ctx = context.WithValue(ctx, leaseKey{}, v.public())
	p.wg.Go(func() {
		defer func() {
			if context.Cause(ctx) == errLeaseLost {
				p.signalRebalance() // after Reset it is free to be taken again
			}
		}()
		defer close(w.done)
		defer p.drop(v.ID)
		defer h.watchdog.Stop()
		var renewer sync.WaitGroup
		renewer.Go(func() { p.renew(ctx, h, stop) })
		stop(p.process(ctx, h, w))
		renewer.Wait()
		p.end(ctx, h, w)
		for _, part := range w.parts {
			p.launch(run, part.worker, part.lease)
		}
	})
}

// signalRebalance has Run rebalance at once.
func (p *Processor) signalRebalance() {
	select {
	case p.stale <- struct{}{}:
	default:
	}
}

// end releases the lease with the last checkpoint, so that another process need not wait for it to
// expire. Errors are harmless.
func (p *Processor) end(ctx context.Context, h *held, w *worker) {
	switch cause := context.Cause(ctx); cause {
	case errSplit, errMerged:
		return // the lease was removed, or stays taken
	case errLeaseLost:
		p.o.Logger.Info("lease lost", logRange, spanOf(h.r), logGeneration, h.get().Generation)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := h.release(ctx, w.at); err != nil && !errors.Is(err, errLeaseLost) {
		p.o.Logger.Warn("lease not released", logRange, spanOf(h.r), logError, err)
	}
}

// renew keeps the lease valid, however long the handler takes: it writes it when half of its expiry
// has passed since the last write, a checkpoint included. Failures are retried; if they last, the
// watchdog cancels the work.
func (p *Processor) renew(ctx context.Context, h *held, stop context.CancelCauseFunc) {
	wait := p.o.Expiry / 2
	for sleep(ctx, wait) {
		if wait = h.age(); wait < p.o.Expiry/2 {
			wait = p.o.Expiry/2 - wait
			continue
		}
		err := h.renew(ctx)
		if errors.Is(err, errLeaseLost) {
			stop(err)
		}
		wait = p.o.Expiry / 2
		if err != nil {
			wait = p.o.Expiry / 12
		}
	}
}

// process reads pages, calls the handler and saves checkpoints until ctx ends. Failures are retried
// from the last page that was handled. It returns why the work must end, or nil if ctx ended.
func (p *Processor) process(ctx context.Context, h *held, w *worker) error {
	var retry backoff
	for ctx.Err() == nil {
		next := p.o.signals()
		idle, changes, err := p.step(ctx, h, w)
		switch {
		case errors.Is(err, errLeaseLost), errors.Is(err, errSplit):
			return err
		case err != nil:
			p.reader.failed(ctx, &retry, h.r, err)
			continue
		}
		retry.reset()
		if idle {
			w.pace.wait(ctx, p.o, changes, next)
		}
	}
	return nil
}

// step does the next piece of work, usually a page. It reports whether the range is idle, and
// whether there were changes.
func (p *Processor) step(ctx context.Context, h *held, w *worker) (idle, changes bool, err error) {
	if h.get().Merging {
		if err := p.finishMerge(ctx, h, w); err != nil {
			return false, false, err
		}
	}
	if w.at != "" {
		c, err := parseContinuation(w.at)
		if err != nil {
			return false, false, err
		}
		if len(c.Positions) > 1 {
			return false, false, p.split(ctx, h, w, c)
		}
	}
	replayTo := h.get().ReplayTo
	if replayTo > 0 {
		ctx = context.WithValue(ctx, replayKey{}, true)
	}
	if w.pages.repeats > 0 {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	from, at := p.reader, w.at
	if !w.rewound.IsZero() {
		from, at = reader{since{p.reader.source, w.rewound}, p.o}, ""
	}
	handling := false
	done, err := from.step(ctx, h.r, at, w.pages.size, func(ctx context.Context, items [][]byte) error {
		handling = true
		return p.handle(ctx, items)
	})
	if behind := (behindError{}); errors.As(err, &behind) {
		idle, err := p.replayLost(ctx, h, w, behind.end)
		return idle, false, err
	}
	w.behind = time.Time{}
	if errors.Is(err, errRecreated) {
		p.o.Logger.Warn("container was recreated, reading its change feed from the beginning", logRange, spanOf(h.r))
		w.at, w.version = "", 0
		return false, false, h.checkpoint(ctx, "")
	}
	if err != nil {
		if handling || errors.Is(err, context.DeadlineExceeded) { // other failures of a read are not for its size
			w.pages.failed()
		}
		return false, false, err
	}
	w.pages.handled(done)
	if at != "" && done.end.version > w.version {
		p.rewind(h, w)
		return false, true, nil
	}
	w.rewound = time.Time{}
	done.end.version = max(done.end.version, w.version) // of another region, which does not know yet
	if w.at, w.version = done.at, done.end.version; done.end.id != w.rangeID {
		if w.rangeID != "" { // it was merged, which rebalance deals with, or split
			p.signalRebalance()
		}
		w.rangeID = done.end.id
	}
	if saved := h.handled(done); saved.After(w.saved) { // by a renewal
		w.saved, w.unsaved, w.spent = saved, 0, 0
	}
	w.lag.Store(done.Lag)
	w.page.Store(p.o.Clock().UnixNano())
	w.unsaved += done.Items
	w.spent += done.Took
	replayed := replayTo > 0 && (done.Items == 0 || reached(w.at, replayTo))
	if replayed || w.due(p.o.Clock(), p.o) {
		if err := h.write(ctx, func(v *lease) {
			if replayed {
				v.ReplayTo = 0
			}
		}); err != nil {
			return false, false, err
		}
		w.saved, w.unsaved, w.spent = p.o.Clock(), 0, 0
	}
	idle = !done.full && (done.Items == 0 || done.Lag == 0) // Cosmos DB may end a page early
	return idle, done.Items > 0, nil
}
