package changefeed

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Mark is a position in the change feed of a feed range: after the transaction with an LSN.
type Mark struct {
	Range   azcosmos.FeedRange
	RangeID string // of the partition key range
	LSN     uint64
	Version int64 // of the session token with that LSN; 0 in an account with one region

	resourceID string // of the container
}

// EndIfEmpty returns the end of the change feed in each feed range, or no marks if there are changes before one
// of them.
func EndIfEmpty(ctx context.Context, source Container) ([]Mark, error) {
	ranges, err := source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	r := reader{source: source}
	var marks []Mark
	for _, of := range ranges {
		page, err := r.read(ctx, of, "", 1)
		if err != nil {
			return nil, err
		}
		end, known := endOf(page)
		if !known || page.RawResponse.StatusCode != http.StatusNotModified { // a 200 without items may not be the end
			return nil, nil
		}
		at, err := parseContinuation(page.ContinuationToken)
		if err != nil {
			return nil, err
		}
		if len(at.Positions) > 1 { // split meanwhile
			return nil, nil
		}
		marks = append(marks, Mark{of, end.id, lsnOf(at.Positions[0].ETag), end.version, at.ResourceID})
	}
	return marks, nil
}

// StartAfter makes the processor called name begin after the marks. All changes before them must have been
// handled. It leaves unchanged a lease that has an owner, is being replayed or merged, or has reached
// its mark.
func StartAfter(ctx context.Context, leaseContainer Container, name string, clock func() time.Time, marks []Mark) error {
	l := leases{leaseContainer, name, clock}
	for _, m := range marks {
		v := m.lease(l.clock())
		if made, err := l.create(ctx, v); made || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		have, err := l.read(ctx, v.ID)
		if err != nil {
			return err
		}
		if have == nil || have.Owner != "" || have.ReplayTo > 0 || have.Merging || !have.before(m) {
			continue
		}
		have.Continuation, have.Version, have.Until = v.Continuation, v.Version, v.Until
		if err := l.save(ctx, have); err != nil && !errors.Is(err, errLeaseLost) { // lost: a process has taken it
			return err
		}
	}
	return nil
}

// lease returns a lease at the mark.
func (m Mark) lease(now time.Time) *lease {
	etag := azcore.ETag(strconv.Quote(strconv.FormatUint(m.LSN, 10)))
	at := start(&etag, m.Range)
	at.ResourceID = m.resourceID
	return &lease{MinInclusive: m.Range.MinInclusive, MaxExclusive: m.Range.MaxExclusive, Continuation: at.String(), Version: m.Version, Until: now.Unix()}
}

// before reports whether the lease, whose range is the mark's, has not reached the mark.
func (v *lease) before(m Mark) bool {
	if v.Continuation == "" {
		return true
	}
	c, err := parseContinuation(v.Continuation)
	return err == nil && len(c.Positions) == 1 && c.ResourceID == m.resourceID && v.Version == m.Version && c.firstLSN() < m.LSN
}
