package changefeed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/sleep"
)

// worker processes one range while this process holds its lease.
type worker struct {
	stop context.CancelCauseFunc // guarded by Processor.mu; nil until launched
	done chan struct{}           // closed when the worker has ended
	lag  atomic.Int64            // transactions left after the last page
	page atomic.Int64            // time of that page, or of the launch before the first, in Unix nanoseconds

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
	behind  time.Time // since then the region has been behind the continuation after a failover; zero: it is not

	// rereadFrom is where the next page starts after a failover, in place of the continuation; zero:
	// at the continuation.
	rereadFrom time.Time
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

// A checkpoint of its own is written, at most once in checkpointEvery, for checkpointItems changes or
// checkpointWork of work. Less work costs less to repeat than a write: it waits for the next renewal,
// which saves it, too, but no longer than checkpointLate or 100 polls.
const (
	checkpointItems = 100
	checkpointWork  = 250 * time.Millisecond
	checkpointEvery = time.Second
	checkpointLate  = 10 * time.Second
)

// due reports whether a checkpoint is due. A new worker saves more often, so that processes that are
// killed soon after they start make progress, too.
func (w *worker) due(now time.Time, o Options) bool {
	age := now.Sub(w.saved)
	return (w.unsaved >= checkpointItems || w.spent >= checkpointWork) &&
		age >= min(checkpointEvery, now.Sub(w.began)/2) ||
		w.unsaved > 0 && age >= min(checkpointLate, 100*o.PollInterval)
}

// Lease identifies the owner of a feed range.
type Lease struct {
	Range azcosmos.FeedRange
	Owner string // "" if free

	// Generation is raised by every change of owner, and not reused for a range unless its lease is
	// deleted.
	Generation int64
}

func (v *lease) public() Lease { return Lease{v.feedRange(), v.Owner, v.Generation} }

type leaseKey struct{} // the Lease under which a handler is called, for tests
type replayKey struct{}
type repeatKey struct{}

// Repeated reports whether a Processor called the handler with changes that may have been handled
// before: after a lease was taken, after a failed page, or from shortly before a failover.
func Repeated(ctx context.Context) bool { return ctx.Value(repeatKey{}) != nil }

// Replaying reports whether a Processor called the handler with changes that are repeated because
// of Reset. The last such page may contain new ones, too.
func Replaying(ctx context.Context) bool { return ctx.Value(replayKey{}) != nil }

// works reports whether this process works on a lease or has reserved it.
func (p *Processor) works(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[id] != nil
}

// Held returns the number of leases that this process holds, and the number of transactions that
// their ranges had left after the last page of each.
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

// Stalled returns the longest time since the last page of a range that this process owns; 0 if it
// owns none. Pages without changes count, too.
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
	h := &held{leases: p.leases, r: v.feedRange(), expiry: p.o.Expiry, writing: make(chan struct{}, 1), lease: *v,
		at: v.Continuation, version: v.Version, until: v.Until}
	h.watchdog = time.AfterFunc(h.remains(), func() { stop(errLeaseLost) })
	ctx = context.WithValue(ctx, leaseKey{}, v.public())
	p.wg.Go(func() {
		defer func() {
			if context.Cause(ctx) == errLeaseLost {
				p.signalRebalance() // after Reset the lease can be taken again
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
		return // the lease was removed, or this process keeps it
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
	for sleep.For(ctx, wait) {
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
			p.reader.awaitRetry(ctx, &retry, h.r, err)
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
	replayTo, reread := h.get().ReplayTo, !w.rereadFrom.IsZero()
	done, handling, err := p.readPage(ctx, h, w, replayTo > 0)
	if err != nil {
		idle, err = p.pageFailed(ctx, h, w, handling, err)
		return idle, false, err
	}
	w.behind = time.Time{}
	w.pages.adapt(done)
	if w.at != "" && !reread && done.end.version > w.version {
		p.rewind(h, w)
		return false, true, nil
	}
	if err := p.savePage(ctx, h, w, done, replayTo); err != nil {
		return false, false, err
	}
	idle = !done.full && (done.Items == 0 || done.Lag == 0) // Cosmos DB may end a page early
	return idle, done.Items > 0, nil
}

// readPage reads the next page and calls the handler. It reports whether the handler was called.
func (p *Processor) readPage(
	ctx context.Context, h *held, w *worker, replaying bool,
) (done pageResult, handling bool, err error) {
	if replaying {
		ctx = context.WithValue(ctx, replayKey{}, true)
	}
	if w.pages.repeats > 0 {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	from, at := p.reader, w.at
	if !w.rereadFrom.IsZero() {
		from, at = reader{startAtContainer{p.reader.source, w.rereadFrom}, p.o}, ""
	}
	done, err = from.step(ctx, h.r, at, w.pages.size, func(ctx context.Context, items [][]byte) error {
		handling = true
		return p.handle(ctx, items)
	})
	return done, handling, err
}

// pageFailed handles an error of readPage. It returns the error to retry after, if any, and reports
// whether the range is idle.
func (p *Processor) pageFailed(ctx context.Context, h *held, w *worker, handling bool, err error) (idle bool, _ error) {
	if behind := (behindError{}); errors.As(err, &behind) {
		return p.replayLost(ctx, h, w, behind.end)
	}
	w.behind = time.Time{}
	if errors.Is(err, errRecreated) {
		p.o.Logger.Warn("container was recreated, reading its change feed from the beginning", logRange, spanOf(h.r))
		w.at, w.version = "", 0
		return false, h.checkpoint(ctx, "")
	}
	if handling || errors.Is(err, context.DeadlineExceeded) { // other failures of a read are not due to its size
		w.pages.shrink()
	}
	return false, err
}

// savePage records the position after a page, and writes a checkpoint if it is due or ends a replay.
func (p *Processor) savePage(ctx context.Context, h *held, w *worker, done pageResult, replayTo uint64) error {
	w.rereadFrom = time.Time{}
	done.end.version = max(done.end.version, w.version) // a region may not know of the failover yet
	if w.at, w.version = done.at, done.end.version; done.end.id != w.rangeID {
		if w.rangeID != "" { // the range was split, or merged, which rebalance handles
			p.signalRebalance()
		}
		w.rangeID = done.end.id
	}
	if saved := h.record(done); saved.After(w.saved) { // a renewal has saved earlier work
		w.saved, w.unsaved, w.spent = saved, 0, 0
	}
	w.lag.Store(done.Lag)
	w.page.Store(p.o.Clock().UnixNano())
	w.unsaved += done.Items
	w.spent += done.Took
	replayed := replayTo > 0 && (done.Items == 0 || reached(w.at, replayTo))
	if !replayed && !w.due(p.o.Clock(), p.o) {
		return nil
	}
	if err := h.write(ctx, func(v *lease) {
		if replayed {
			v.ReplayTo = 0
		}
	}); err != nil {
		return err
	}
	w.saved, w.unsaved, w.spent = p.o.Clock(), 0, 0
	return nil
}
