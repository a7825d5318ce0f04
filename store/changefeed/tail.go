package changefeed

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Tail hands every change of a container from now on to its Handler, without
// leases: every Tail sees every change. It remembers nothing once Run has ended.
type Tail struct {
	reader reader
	handle Handler
	ready  chan struct{}
}

// NewTail returns a Tail of source. Of the Options it uses PollInterval,
// MaxItems, Expiry, Clock, Logger and Observe.
//
// A feed range waits while the handler is at work on its last page: a handler
// with consumers of different speeds must not wait for the slowest, but queue for
// each and let go of what falls too far behind.
func NewTail(source *azcosmos.ContainerClient, handle Handler, o Options) *Tail {
	return &Tail{reader: reader{source, o.withDefaults()}, handle: handle, ready: make(chan struct{})}
}

// Ready is closed as soon as Run knows where "now" is in every feed range: a
// change that is written later will be handled.
func (t *Tail) Ready() <-chan struct{} { return t.ready }

// Run handles changes until ctx ends, and then returns nil. What goes wrong
// meanwhile is logged and tried again from where it stopped, so that nothing is
// left out. The changes of a container that takes the place of another are all
// handled. It may be called once.
func (t *Tail) Run(ctx context.Context) error {
	at, ok := t.now(ctx)
	if !ok {
		return nil
	}
	close(t.ready)
	// Ranges are read side by side. When they have been split or merged, all stop
	// for a moment, so that there is again one reader for each.
	for ctx.Err() == nil {
		at = t.followAll(ctx, at)
		if ranges, err := t.reader.source.ReadFeedRanges(ctx, nil); err == nil {
			at = at.along(ranges)
		}
	}
	return nil
}

// along is the continuation with one position for each of the ranges.
func (c continuation) along(ranges []azcosmos.FeedRange) continuation {
	of := continuation{c.Version, c.ResourceID, nil}
	for _, r := range ranges {
		of.Positions = append(of.Positions, c.within(r).Positions...)
	}
	return of
}

// now learns where the feed ends. It reports false if ctx ends first.
func (t *Tail) now(ctx context.Context) (continuation, bool) {
	var retry backoff
	for {
		at, err := t.reader.end(ctx)
		if err == nil {
			return at, true
		}
		if !t.reader.failed(ctx, &retry, everything, err) {
			return continuation{}, false
		}
	}
}

// followAll reads on at every position until ctx ends, or the feed ranges are no
// longer those of the positions, and returns the positions then.
func (t *Tail) followAll(ctx context.Context, at continuation) continuation {
	same, change := context.WithCancel(ctx) // ends when the ranges change
	defer change()
	var wg sync.WaitGroup
	ends := make([]continuation, len(at.Positions))
	for i, p := range at.Positions {
		wg.Go(func() {
			ends[i] = t.follow(ctx, same, continuation{at.Version, at.ResourceID, []position{p}})
			change()
		})
	}
	for sleep(same, t.reader.o.Expiry) {
		ranges, err := t.reader.source.ReadFeedRanges(ctx, nil)
		if err == nil && !slices.Equal(ranges, feedRangesOf(at.Positions)) {
			change()
		}
	}
	wg.Wait()
	at.Positions = nil
	for _, end := range ends {
		if len(end.Positions) == 0 { // of a container that is gone: so are the others
			t.reader.o.Logger.Warn("container made anew: its change feed is read from the beginning")
			return start(nil, everything)
		}
		at.Positions = append(at.Positions, end.Positions...)
	}
	return at
}

// follow reads on at one position until same ends, or its range is seen to have
// been split. It returns no position if the container was made anew.
func (t *Tail) follow(ctx, same context.Context, at continuation) continuation {
	var retry backoff
	r := at.Positions[0].feedRange()
	for same.Err() == nil {
		done, err := t.reader.step(ctx, r, at.String(), t.handle)
		if err == nil {
			var c continuation
			if c, err = parseContinuation(done.at); err == nil {
				at = c
			}
		}
		if errors.Is(err, errMadeAnew) {
			return continuation{}
		}
		if err != nil {
			t.reader.failed(same, &retry, r, err)
			continue
		}
		if len(at.Positions) > 1 {
			return at
		}
		retry.reset()
		if done.Lag == 0 && !done.full { // what is written meanwhile comes together
			sleep(same, t.reader.o.PollInterval)
		}
	}
	return at
}
