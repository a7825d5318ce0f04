package changefeed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// RangeStatus is the progress of a processor in one feed range.
type RangeStatus struct {
	Lease
	Continuation string // azcosmos token; "" at the beginning of the feed

	// Lag is the number of transactions of the range that are not handled yet. It estimates the number
	// of changes: a transaction can have several, and an item changed repeatedly appears once.
	Lag int64

	// Since is the time of the first unhandled change, in whole seconds, or zero.
	Since time.Time

	// Renewed is the time of the last write of the lease, in whole seconds of Cosmos DB's clock. A
	// live owner writes it several times within Options.Expiry.
	Renewed time.Time

	// Replay is how many transactions are left to replay after Reset; 0 otherwise.
	Replay int64
}

// Status compares the leases of the processor called name with the change feed of source. Any
// process may call it, whether or not a processor runs. A processor that has never run has no
// ranges.
func Status(ctx context.Context, source, leaseContainer Container, name string) ([]RangeStatus, error) {
	all, err := leases{container: leaseContainer, prefix: name}.list(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *lease) int {
		return cmp.Or(compareKeys(a.MinInclusive, b.MinInclusive), compareKeys(a.MaxExclusive, b.MaxExclusive))
	})
	status := make([]RangeStatus, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, v := range all {
		g.Go(func() error {
			status[i] = RangeStatus{Lease: v.public(), Continuation: v.Continuation, Replay: v.toReplay(),
				Renewed: v.renewed}
			return status[i].measure(ctx, source)
		})
	}
	return status, g.Wait()
}

// measure reads the next item. If the range was split since its last checkpoint, it adds up the
// parts.
func (s *RangeStatus) measure(ctx context.Context, source Container) error {
	r, at := reader{source: source, o: Options{}.withDefaults()}, s.Continuation
	if at == "" {
		at = start(nil, s.Range).String()
	}
	c, err := parseContinuation(at)
	if err != nil {
		return err
	}
	for len(c.Positions) > 0 {
		one := continuation{c.Version, c.ResourceID, c.Positions[:1]}
		c.Positions = c.Positions[1:]
		page, err := r.read(ctx, one.Positions[0].feedRange(), one.String(), 1)
		if err != nil && r.recreated(ctx, one.String(), err) { // the owner restarts from the beginning
			c = start(nil, s.Range)
			s.Lag, s.Since = 0, time.Time{}
			continue
		}
		if err != nil {
			return err
		}
		read, err := parseContinuation(page.ContinuationToken)
		if err != nil {
			return err
		}
		if len(read.Positions) > 1 && len(page.Items) > 0 {
			// Split: the page has not covered all parts, or has read past an item in one.
			c.Positions = append(c.Positions,
				start(one.Positions[0].ETag, feedRangesOf(read.Positions)...).Positions...)
			continue
		}
		if len(page.Items) == 0 {
			continue
		}
		s.Lag += lag(page, page.Items[0]) + 1
		if first := systemOf(page.Items[0]); first.TS > 0 {
			if t := time.Unix(first.TS, 0); s.Since.IsZero() || t.Before(s.Since) {
				s.Since = t
			}
		}
	}
	return nil
}
