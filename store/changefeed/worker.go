package changefeed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// worker works on one range as long as this process holds its lease.
type worker struct {
	stop context.CancelCauseFunc // guarded by Processor.mu; nil until it is launched
	done chan struct{}           // closed when it has ended
	lag  atomic.Int64            // transactions that were still to be read after the last page

	// Of the worker's own goroutine until done:
	resets  int64     // of the lease when it was launched
	at      string    // the continuation
	unsaved bool      // changes were handled since the last checkpoint
	saved   time.Time // when that was
	parts   []part    // of the range, if it was split
}

// part is a worker that is reserved for a new lease.
type part struct {
	worker *worker
	lease  *lease
}

// How a worker ends other than with its process or without its lease.
var (
	errSplit  = errors.New("the range was split")
	errMerged = errors.New("the range is being merged")
)

// checkpointEvery is how often checkpoints are written while pages are full: many
// small pages of a long feed cost fewer writes, and a crash repeats no more.
const checkpointEvery = 50 * time.Millisecond

// Lease is what a Handler, or an operator, may know of a lease.
type Lease struct {
	Range azcosmos.FeedRange
	Owner string // "" if nobody

	// Generation is raised by every change of owner, and not used twice for one
	// range unless its lease is lost: a handler that writes to where it can be
	// compared passes it on as a fencing token.
	Generation int64
}

func (v *lease) public() Lease { return Lease{v.feedRange(), v.Owner, v.Generation} }

type leaseKey struct{}
type replayKey struct{}

// Replaying reports whether a Processor's Handler, given its context, is called
// with changes that come again because of Reset. Of the last such page some may
// be new.
func Replaying(ctx context.Context) bool { return ctx.Value(replayKey{}) != nil }

// LeaseOf returns the lease that a Processor's Handler works by, given the
// handler's context.
func LeaseOf(ctx context.Context) (Lease, bool) {
	v, ok := ctx.Value(leaseKey{}).(Lease)
	return v, ok
}

// works reports whether this process works on a lease, or is about to.
func (p *Processor) works(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers[id] != nil
}

// Held tells how many leases this process holds, and how many transactions were still
// to be read of their ranges after the last page of each.
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

// reserve keeps the lease from being worked on until it is started or dropped.
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

// work starts a worker for a lease that was taken just now.
func (p *Processor) work(ctx context.Context, v *lease) {
	if w, ok := p.reserve(v.ID); ok {
		p.launch(ctx, w, v)
	}
}

// launch starts the worker that was reserved for a lease. When it has split its
// range, it starts the workers of the parts.
func (p *Processor) launch(run context.Context, w *worker, v *lease) {
	ctx, stop := context.WithCancelCause(run)
	p.mu.Lock()
	w.stop = stop
	p.mu.Unlock()
	w.at, w.resets = v.Continuation, v.Resets
	h := &held{leases: p.leases, r: v.feedRange(), expiry: p.o.Expiry, lease: *v}
	h.watchdog = time.AfterFunc(h.remains(), func() { stop(ErrLeaseLost) })
	ctx = context.WithValue(ctx, leaseKey{}, v.public())
	p.wg.Go(func() {
		defer func() {
			if context.Cause(ctx) == ErrLeaseLost {
				p.look()
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

// look has the leases looked at now: Reset may have left one that was lost to this
// process.
func (p *Processor) look() {
	select {
	case p.lost <- struct{}{}:
	default:
	}
}

// end lets the lease go, with the last checkpoint, so that another process need
// not wait for it to expire. It is no matter if that fails.
func (p *Processor) end(ctx context.Context, h *held, w *worker) {
	switch cause := context.Cause(ctx); cause {
	case errSplit, errMerged:
		return // it is gone, or kept
	case ErrLeaseLost:
		p.o.Logger.Info("lease lost", logRange, spanOf(h.r), logGeneration, h.get().Generation)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := h.release(ctx, w.at); err != nil && !errors.Is(err, ErrLeaseLost) {
		p.o.Logger.Warn("lease not released", logRange, spanOf(h.r), logError, err)
	}
}

// renew renews the lease, however long the handler takes. Failures are tried
// again; if they last, the watchdog ends the work.
func (p *Processor) renew(ctx context.Context, h *held, stop context.CancelCauseFunc) {
	wait := p.o.Expiry / 3
	for sleep(ctx, wait) {
		err := h.renew(ctx)
		if errors.Is(err, ErrLeaseLost) {
			stop(err)
		}
		wait = p.o.Expiry / 3
		if err != nil {
			wait /= 4
		}
	}
}

// process reads pages, hands them to the handler and saves how far it has come,
// until ctx ends. What fails is tried again from the last page that was handled.
// It returns why the work must end, or nil if ctx says so.
func (p *Processor) process(ctx context.Context, h *held, w *worker) error {
	var retry backoff
	for ctx.Err() == nil {
		idle, err := p.step(ctx, h, w)
		switch {
		case errors.Is(err, ErrLeaseLost), errors.Is(err, errSplit):
			return err
		case err != nil:
			p.reader.failed(ctx, &retry, h.r, err)
			continue
		}
		retry.reset()
		if idle {
			sleep(ctx, p.o.PollInterval)
		}
	}
	return nil
}

// step does what is to be done next: mostly a page. It reports whether that was
// all there is for now.
func (p *Processor) step(ctx context.Context, h *held, w *worker) (idle bool, err error) {
	if h.get().Merging {
		if err := p.finishMerge(ctx, h, w); err != nil {
			return false, err
		}
	}
	if w.at != "" {
		c, err := parseContinuation(w.at)
		if err != nil {
			return false, err
		}
		if len(c.Positions) > 1 {
			return false, p.split(ctx, h, w, c)
		}
	}
	replayTo := h.get().ReplayTo
	if replayTo > 0 {
		ctx = context.WithValue(ctx, replayKey{}, true)
	}
	done, err := p.reader.step(ctx, h.r, w.at, p.handle)
	if errors.Is(err, errMadeAnew) {
		p.o.Logger.Warn("container made anew: its change feed is read from the beginning", logRange, spanOf(h.r))
		w.at = ""
		return false, h.checkpoint(ctx, "")
	}
	if err != nil {
		return false, err
	}
	w.at = done.at
	w.lag.Store(done.Lag)
	w.unsaved = w.unsaved || done.Items > 0
	replayed := replayTo > 0 && (done.Items == 0 || reached(w.at, replayTo))
	if replayed || w.unsaved && (!done.full || p.o.Clock().Sub(w.saved) >= checkpointEvery) {
		// A checkpoint only after the handler.
		if err := h.write(ctx, func(v *lease) {
			v.Continuation = w.at
			if replayed {
				v.ReplayTo = 0
			}
		}); err != nil {
			return false, err
		}
		w.unsaved, w.saved = false, p.o.Clock()
	}
	return !done.full, nil
}
