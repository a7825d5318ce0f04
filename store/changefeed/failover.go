package changefeed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/cosmos/session"
)

// A forced failover to another region loses the writes that had not reached it. Its LSNs are then
// behind the continuations, and pass them again with new changes, which would be skipped. A region
// that only lags is behind, too, perhaps for minutes. A failover raises the version of session
// tokens, so leases keep the version with the continuation.

// lostAfter is how long a region must be behind a continuation after a failover until writes count as
// lost: its replicas may lag, too.
const lostAfter = 10 * time.Second

// behindError reports that a continuation is ahead of the region that was read.
type behindError struct{ end feedEnd } // of the region

func (e behindError) Error() string {
	return fmt.Sprintf("change feed ends at LSN %d, before the continuation", e.end.lsn)
}

// startAtContainer is a container whose change feed, without a continuation, begins at a time.
type startAtContainer struct {
	Container
	time time.Time
}

func (c startAtContainer) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	if o.Continuation == nil {
		begin := *o
		begin.StartFrom = &c.time
		o = &begin
	}
	return c.Container.ReadChangeFeed(ctx, o)
}

// maxLoss bounds the age of the writes that a failover loses: the recovery point objective that
// Microsoft states for accounts with one write region.
const maxLoss = 15 * time.Minute

// rewind makes the worker read again the changes since maxLoss before the failover. A region that
// has lost writes, and has overtaken the continuation since, has other changes before it.
func (p *Processor) rewind(h *held, w *worker) {
	h.mu.Lock()
	w.rereadFrom = time.Unix(h.until, 0).Add(-maxLoss)
	h.mu.Unlock()
	w.pages = newPages(p.o.MaxItems)
	p.o.Logger.Info("the account has failed over: reading its last changes again", logRange, spanOf(h.r))
}

// strictContainer is a container that returns a behindError if a page is empty because the
// continuation is ahead of the region.
type strictContainer struct{ Container }

func (c strictContainer) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	page, err := c.Container.ReadChangeFeed(ctx, o)
	if err != nil || o.Continuation == nil || len(page.Items) > 0 {
		return page, err
	}
	at, err := parseContinuation(*o.Continuation)
	if err != nil || len(at.Positions) > 1 { // the page is of one of several ranges
		return page, nil
	}
	if end, ok := endOf(page); ok && end.lsn < at.firstLSN() {
		return page, behindError{end}
	}
	return page, nil
}

// tolerantContainer is a container that continues at the end of the region if a continuation is ahead
// of it: changes may be repeated, and those between the failover and the first read are skipped.
type tolerantContainer struct{ Container }

func (c tolerantContainer) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	page, err := strictContainer(c).ReadChangeFeed(ctx, o)
	var behind behindError
	if !errors.As(err, &behind) {
		return page, err
	}
	at, err := parseContinuation(*o.Continuation)
	if err != nil {
		return page, err
	}
	etag := azcore.ETag(strconv.Quote(strconv.FormatUint(behind.end.lsn, 10)))
	at.Positions[0].ETag = &etag
	next, end := *o, at.String()
	next.Continuation = &end
	return c.Container.ReadChangeFeed(ctx, &next)
}

// feedEnd is the end of a range in the region that was read.
type feedEnd struct {
	id      string // of the partition key range
	version int64  // counts failovers; 0 in an account with one region, which sends -1
	lsn     uint64
}

// endOf returns the end of the page's range when it was read.
func endOf(page azcosmos.ChangeFeedResponse) (feedEnd, bool) {
	if page.RawResponse == nil {
		return feedEnd{}, false
	}
	id, version, lsn, ok := session.Parse(page.RawResponse.Header.Get(session.Header))
	if !ok || lsn < 0 {
		return feedEnd{}, false
	}
	return feedEnd{strconv.FormatUint(id, 10), max(0, version), uint64(lsn)}, true
}

// replayLost replays the range from the beginning, as Reset does, if the account has failed over
// since the continuation and its region has been behind it for lostAfter. Otherwise the range is idle.
func (p *Processor) replayLost(ctx context.Context, h *held, w *worker, end feedEnd) (idle bool, err error) {
	if end.version <= w.version {
		w.behind = time.Time{}
		return true, nil
	}
	now := p.o.Clock()
	if w.behind.IsZero() {
		w.behind = now
	}
	if now.Sub(w.behind) < lostAfter {
		return true, nil
	}
	v := h.get()
	p.o.Logger.Warn(
		"change feed is behind its checkpoint after a failover that lost writes: replaying it from the beginning",
		logRange, spanOf(h.r), logLSN, end.lsn, logCheckpoint, v.Continuation)
	if err := p.leases.reset(ctx, &lease{ID: v.ID, Resets: v.Resets + 1, ReplayTo: end.lsn}); err != nil {
		return false, err
	}
	return false, errLeaseLost // the lease is taken again, at the beginning
}
