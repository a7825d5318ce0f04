package changefeed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/sleep"
)

// reader reads pages of the change feed.
type reader struct {
	source Container
	o      Options
}

// read reads the page after a continuation, or the first page of the range if it is empty.
func (r reader) read(
	ctx context.Context, of azcosmos.FeedRange, continuation string, items int32,
) (azcosmos.ChangeFeedResponse, error) {
	o := &azcosmos.ChangeFeedOptions{MaxItemCount: items}
	if continuation == "" {
		o.FeedRange = &of
	} else {
		o.Continuation = &continuation
	}
	return r.source.ReadChangeFeed(ctx, o)
}

// errNoEnd reports that Cosmos DB returned no position for "now".
var errNoEnd = errors.New("change feed has no position for now")

// fullRange is the range of all keys.
var fullRange = azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}

// ends returns the end of every range. It names the ranges, because azcosmos does not read a range that
// covers more than eight physical partitions.
func (r reader) ends(ctx context.Context) (continuation, error) {
	ranges, err := r.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return continuation{}, err
	}
	at, _, err := r.end(ctx, ranges...)
	return at, err
}

// end returns the end of ranges: it reads from now.
func (r reader) end(ctx context.Context, ranges ...azcosmos.FeedRange) (at continuation, last feedEnd, err error) {
	etag := fromNow
	page, err := r.read(ctx, fullRange, start(&etag, ranges...).String(), r.o.MaxItems)
	if err != nil {
		return continuation{}, feedEnd{}, err
	}
	at, err = parseContinuation(page.ContinuationToken)
	if err == nil && slices.ContainsFunc(at.Positions,
		func(p position) bool { return p.ETag == nil || *p.ETag == fromNow }) {
		err = errNoEnd
	}
	last, _ = endOf(page)
	return at, last, err
}

// fullPage is the number of bytes that make a page full. Cosmos DB ends a page at 4 MB and an item
// has at most 2 MB, so every page that ends there has at least this.
const fullPage = 2 << 20

// pageResult is the result of a page that was handled.
type pageResult struct {
	Progress
	at    string  // continuation after the page
	until int64   // see lease.Until
	end   feedEnd // of the range when it was read; zero if unknown
	full  bool    // the next page can be read at once
}

// step reads a page of at most size changes and calls the handler.
func (r reader) step(
	ctx context.Context, of azcosmos.FeedRange, continuation string, size int32, handle Handler,
) (pageResult, error) {
	progress := Progress{Range: of, Began: r.o.Clock()}
	page, err := r.read(ctx, of, continuation, size)
	if err != nil {
		if r.recreated(ctx, continuation, err) {
			err = errRecreated
		}
		return pageResult{}, err
	}
	if r.foreign(ctx, continuation, page) {
		return pageResult{}, errRecreated
	}
	progress.Items = len(page.Items)
	if progress.Items > 0 {
		began := r.o.Clock()
		if err := handle(ctx, page.Items); err != nil {
			return pageResult{}, err
		}
		progress.Took = r.o.Clock().Sub(began)
		progress.Lag = lag(page, page.Items[progress.Items-1])
		if page.FeedRange != nil {
			progress.Range = *page.FeedRange
		}
	}
	if page.ContinuationToken == "" {
		page.ContinuationToken = continuation
	}
	r.o.Observe(progress)
	end, _ := endOf(page)
	done := pageResult{progress, page.ContinuationToken, progress.Began.Unix(), end, full(page.Items, size)}
	if done.full || done.Lag > 0 {
		done.until = min(done.until, systemOf(page.Items[progress.Items-1]).TS)
	}
	return done, nil
}

// errRecreated reports that a continuation belongs to a container that was deleted and created
// again under the same name.
var errRecreated = errors.New("container was recreated")

// recreated reports whether the container was recreated since the continuation, given the error of a
// read. azcosmos itself refuses such a continuation, with an untyped error.
func (r reader) recreated(ctx context.Context, at string, err error) bool {
	var response *azcore.ResponseError
	c, malformed := parseContinuation(at)
	if malformed != nil || c.ResourceID == "" || errors.As(err, &response) {
		return false
	}
	now, err := r.source.Read(ctx, nil)
	return err == nil && now.ContainerProperties.ResourceID != c.ResourceID
}

// foreign reports whether a page came from another container than its continuation. azcosmos caches
// the ids of containers, and does not detect a new container whose feed ranges have the same ids.
func (r reader) foreign(ctx context.Context, at string, page azcosmos.ChangeFeedResponse) bool {
	c, malformed := parseContinuation(at)
	if malformed != nil || page.RawResponse == nil {
		return false
	}
	from := page.RawResponse.Header.Get("x-ms-content-path") // the container's resource id
	return from != "" && from != c.ResourceID && r.recreated(ctx, at, nil)
}

// full reports whether a page reached a limit.
func full(items [][]byte, most int32) bool {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	return len(items) >= int(most) || size >= fullPage
}

// awaitRetry logs an error and waits for the backoff. It reports false if ctx has ended.
func (r reader) awaitRetry(ctx context.Context, retry *backoff, of azcosmos.FeedRange, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	d, throttled := retry.after(err)
	level := slog.LevelWarn
	if throttled {
		level = slog.LevelDebug
	}
	r.o.Observe(Progress{Range: of, Err: err})
	r.o.Logger.Log(ctx, level, "change feed read failed, retrying", logRange, spanOf(of), logError, err, logRetryIn, d)
	return sleep.For(ctx, d)
}

// system holds the system properties of an item in the change feed.
type system struct {
	LSN int64 `json:"_lsn"`
	TS  int64 `json:"_ts"`
}

func systemOf(item []byte) (s system) {
	_ = json.Unmarshal(item, &s) // missing properties stay 0
	return s
}

// lag returns how many transactions of the range follow the one that wrote the item.
func lag(page azcosmos.ChangeFeedResponse, item []byte) int64 {
	end, ok := endOf(page)
	lsn := systemOf(item).LSN
	if !ok || lsn == 0 {
		return 0
	}
	return max(0, int64(end.lsn)-lsn)
}
