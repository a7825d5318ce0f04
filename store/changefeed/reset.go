package changefeed

import (
	"context"
	"time"
)

// Reset makes the processors called name replay the change feed of source from the beginning. It
// writes every lease, so that the owner loses it and takes it again in a new generation; idle owners
// notice within half of Options.Expiry. If no processor runs, the next one starts at the beginning.
//
// During the replay, Replaying is true in handlers, and Status reports the remaining transactions.
// Reset may run at any time and concurrently. After an error some ranges may have been reset;
// calling it again is safe.
func Reset(ctx context.Context, source, leaseContainer Container, name string) error {
	l := leases{leaseContainer, name, time.Now}
	end, err := reader{source: source, o: Options{}.withDefaults()}.ends(ctx)
	if err != nil {
		return err
	}
	resets := int64(0)
	for {
		ranges, err := source.ReadFeedRanges(ctx, nil)
		if err != nil {
			return err
		}
		all, err := l.complete(ctx, ranges)
		if err != nil {
			return err
		}
		if resets == 0 {
			for _, v := range all {
				resets = max(resets, v.Resets+1)
			}
		}
		// Ranges may split or merge meanwhile: done once a listing shows only leases that were
		// reset.
		done := true
		for _, v := range all {
			if v.Resets >= resets {
				continue
			}
			done = false
			if err := l.reset(ctx, &lease{ID: v.ID, Resets: resets, ReplayTo: end.lastLSN(v.feedRange())}); err != nil {
				return err
			}
		}
		if done {
			return nil
		}
	}
}

// reached reports whether all parts of a range have reached an LSN.
func reached(at string, lsn uint64) bool {
	c, err := parseContinuation(at)
	return err == nil && c.firstLSN() >= lsn
}

// toReplay returns how many transactions of the range are left to replay.
func (v *lease) toReplay() int64 {
	if v.ReplayTo == 0 {
		return 0
	}
	at := uint64(0)
	if c, err := parseContinuation(v.Continuation); err == nil {
		at = min(c.firstLSN(), v.ReplayTo-1) // at least 1: the owner ends the replay
	}
	return int64(v.ReplayTo - at)
}
