package changefeed

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"golang.org/x/sync/errgroup"
)

// RangeStatus is how far a processor has come with one feed range.
type RangeStatus struct {
	Lease
	Continuation string // of azcosmos; "" at the beginning of the feed

	// Lag is how many transactions of the range are still to be handled. It
	// estimates the changes: several of them may be of one transaction, and one
	// item changed again and again comes only once.
	Lag int64

	// Since is when the first of the changes that are still to be handled was
	// written, in whole seconds; the zero time if there is none.
	Since time.Time

	// Renewed is when the lease was last written, in whole seconds of Cosmos DB's
	// clock. An owner that is alive does so several times within Options.Expiry.
	Renewed time.Time

	// Replay is how many of the range's transactions before Reset are still to be
	// handled again; 0 if nothing is.
	Replay int64
}

// Status reads the leases of the processor called name and compares them with the
// change feed of source. It takes part in nothing: any process may call it, also
// while no processor runs. A processor that has never run has no ranges.
func Status(ctx context.Context, source, leaseContainer *azcosmos.ContainerClient, name string) ([]RangeStatus, error) {
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
			status[i] = RangeStatus{Lease: v.public(), Continuation: v.Continuation, Replay: v.toReplay(), Renewed: v.renewed}
			return status[i].measure(ctx, source)
		})
	}
	return status, g.Wait()
}

// measure reads on for one item. If the range was split and nobody has come by
// since, it adds up over its parts.
func (s *RangeStatus) measure(ctx context.Context, source *azcosmos.ContainerClient) error {
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
		if err != nil && r.madeAnew(ctx, one.String(), err) { // whoever works on it begins at the beginning
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
			// It was split: its parts were not all looked at, or read past an item.
			c.Positions = append(c.Positions, start(one.Positions[0].ETag, feedRangesOf(read.Positions)...).Positions...)
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
