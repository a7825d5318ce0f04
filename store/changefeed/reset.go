package changefeed

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Reset sends the processors called name back to the beginning of the change feed
// of source, wherever they run: every lease is written, if it is still what was
// read, so that its owner cannot save how far it has come any more, gives it up,
// and takes it again in a new generation. Idle owners notice when they renew the
// lease, within a third of Options.Expiry. If none runs, whoever runs next begins at the beginning.
//
// While changes come again, handlers find Replaying true, and Status tells how
// many are left. Reset may run beside anything, several times too. After an error
// some ranges may have been sent back and others not; it can be repeated.
func Reset(ctx context.Context, source, leaseContainer *azcosmos.ContainerClient, name string) error {
	l := leases{leaseContainer, name, time.Now}
	end, err := reader{source: source, o: Options{}.withDefaults()}.end(ctx)
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
		// Ranges may split or merge meanwhile: it is done when a listing shows only
		// leases that were reset.
		done := true
		for _, v := range all {
			if v.Resets >= resets {
				continue
			}
			done = false
			if err := l.sendBack(ctx, &lease{ID: v.ID, Resets: resets, ReplayTo: end.lastLSN(v.feedRange())}); err != nil {
				return err
			}
		}
		if done {
			return nil
		}
	}
}

// reached reports whether a range has come to an LSN in all of its parts.
func reached(at string, lsn uint64) bool {
	c, err := parseContinuation(at)
	return err == nil && c.firstLSN() >= lsn
}

// toReplay is how many transactions of the range are still to be handled again.
func (v *lease) toReplay() int64 {
	if v.ReplayTo == 0 {
		return 0
	}
	at := uint64(0)
	if c, err := parseContinuation(v.Continuation); err == nil {
		at = min(c.firstLSN(), v.ReplayTo-1) // it is over when the owner says so
	}
	return int64(v.ReplayTo - at)
}
