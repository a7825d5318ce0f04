package changefeed

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/sleep"
)

// Tail delivers every change of a container from now on to its Handler, without leases: every Tail
// receives every change. It persists nothing.
type Tail struct {
	reader reader
	handle Handler
	ready  chan struct{}
}

// NewTail returns a Tail of source. It uses the Options PollInterval, IdleInterval, Wake,
// Unwatched, UnwatchedInterval, MaxItems, Expiry, Clock, Logger and Observe.
//
// A slow handler delays its feed range. A handler that feeds several consumers must not wait for the
// slowest: it should queue for each, and drop consumers that fall too far behind.
func NewTail(source Container, handle Handler, o Options) *Tail {
	return &Tail{reader: reader{tolerantContainer{source}, o.withDefaults()}, handle: handle,
		ready: make(chan struct{})}
}

// Ready is closed once Run knows the end of every feed range: it delivers every change written after
// that.
func (t *Tail) Ready() <-chan struct{} { return t.ready }

// Run delivers changes until ctx ends, and then returns nil. Failures are logged and retried from
// the same position, so that no change is lost. If the container is recreated, Run reads the new
// one from its beginning. It may be called once.
func (t *Tail) Run(ctx context.Context) error {
	at, ok := t.now(ctx)
	if !ok {
		return nil
	}
	close(t.ready)
	// Ranges are read concurrently. After a split or merge all readers stop, and new ones start, one
	// for each range.
	for ctx.Err() == nil {
		at = t.followAll(ctx, at)
		if ranges, err := t.reader.source.ReadFeedRanges(ctx, nil); err == nil {
			at = at.along(ranges)
		}
	}
	return nil
}

// along returns the continuation with one position for each of the ranges.
func (c continuation) along(ranges []azcosmos.FeedRange) continuation {
	of := continuation{c.Version, c.ResourceID, nil}
	for _, r := range ranges {
		of.Positions = append(of.Positions, c.within(r).Positions...)
	}
	return of
}

// now returns the end of the feed. It reports false if ctx ends first.
func (t *Tail) now(ctx context.Context) (continuation, bool) {
	var retry backoff
	for {
		at, err := t.reader.ends(ctx)
		if err == nil {
			return at, true
		}
		if !t.reader.awaitRetry(ctx, &retry, fullRange, err) {
			return continuation{}, false
		}
	}
}

// followAll reads on from every position until ctx ends or the feed ranges change, and returns the
// positions reached.
func (t *Tail) followAll(ctx context.Context, at continuation) continuation {
	same, change := context.WithCancel(ctx) // canceled when the ranges change
	defer change()
	var wg sync.WaitGroup
	ends := make([]continuation, len(at.Positions))
	for i, p := range at.Positions {
		wg.Go(func() {
			ends[i] = t.follow(ctx, same, continuation{at.Version, at.ResourceID, []position{p}})
			change()
		})
	}
	for sleep.For(same, t.reader.o.Expiry) {
		ranges, err := t.reader.source.ReadFeedRanges(ctx, nil)
		if err == nil && !slices.Equal(ranges, feedRangesOf(at.Positions)) {
			change()
		}
	}
	wg.Wait()
	at.Positions = nil
	for _, end := range ends {
		if len(end.Positions) == 0 { // the container was recreated: all positions are invalid
			t.reader.o.Logger.Warn("container was recreated, reading its change feed from the beginning")
			return start(nil, fullRange)
		}
		at.Positions = append(at.Positions, end.Positions...)
	}
	return at
}

// follow reads on from one position until same ends or its range is split. It returns no position
// if the container was recreated.
func (t *Tail) follow(ctx, same context.Context, at continuation) continuation {
	var retry backoff
	var pace pace
	r := at.Positions[0].feedRange()
	for same.Err() == nil {
		next := t.reader.o.signals()
		done, err := t.reader.step(ctx, r, at.String(), t.reader.o.MaxItems, t.handle)
		if err == nil {
			var c continuation
			if c, err = parseContinuation(done.at); err == nil {
				at = c
			}
		}
		if errors.Is(err, errRecreated) {
			return continuation{}
		}
		if err != nil {
			t.reader.awaitRetry(same, &retry, r, err)
			continue
		}
		if len(at.Positions) > 1 {
			return at
		}
		retry.reset()
		if done.Lag == 0 && !done.full {
			pace.wait(same, t.reader.o, done.Items > 0, next)
		}
	}
	return at
}
