package changefeed

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrRunning reports that a processor owns a lease.
var ErrRunning = errors.New("a change feed processor runs")

// BeginLoad begins a bulk load that does what the handlers of a processor would do. o needs Name; Owner is
// a process that does not run, whose leases count as free. Unless another process owns a lease (ErrRunning),
// call end after the load: it moves the leases to the end of the feed.
//
// end leaves two kinds of leases, so that processors read the load's changes like others: those of ranges
// with unhandled changes from before the load, and those that a process has taken since.
func BeginLoad(
	ctx context.Context, source, leaseContainer Container, o Options,
) (end func(context.Context) error, err error) {
	o = o.withDefaults()
	l, r := leases{leaseContainer, o.Name, o.Clock}, reader{source: source, o: o}
	ranges, err := source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	all, err := l.complete(ctx, ranges)
	if err != nil {
		return nil, err
	}
	var caughtUp []*lease
	for _, v := range all {
		if v.Owner != "" && v.Owner != o.Owner && o.Clock().Before(v.validUntil()) {
			return nil, fmt.Errorf("%w: %s", ErrRunning, v.Owner)
		}
		status := RangeStatus{Lease: v.public(), Continuation: v.Continuation}
		if err := status.measure(ctx, source); err != nil {
			return nil, err
		}
		if status.Lag == 0 {
			caughtUp = append(caughtUp, v)
		}
	}
	return func(ctx context.Context) error {
		for _, v := range caughtUp {
			if err := v.moveToEnd(ctx, l, r); err != nil && !errors.Is(err, errLeaseLost) {
				return err
			}
		}
		return nil
	}, nil
}

// validUntil returns when the lease expires, by Cosmos DB's clock, whose times are whole seconds.
func (v *lease) validUntil() time.Time { return v.renewed.Add(time.Second + v.Expiry) }

// moveToEnd frees the lease at the end of the feed, in a new generation.
func (v *lease) moveToEnd(ctx context.Context, l leases, r reader) error {
	now := l.clock()
	at, end, err := r.end(ctx, v.feedRange())
	if err != nil {
		return err
	}
	v.Owner, v.Continuation, v.Version, v.Until = "", at.String(), end.version, now.Unix()
	v.Generation++
	return l.save(ctx, v)
}
