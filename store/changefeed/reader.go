package changefeed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// reader reads pages of the change feed.
type reader struct {
	source *azcosmos.ContainerClient
	o      Options
}

// read reads the page after the continuation, or the first of the range.
func (r reader) read(ctx context.Context, of azcosmos.FeedRange, continuation string, items int32) (azcosmos.ChangeFeedResponse, error) {
	o := &azcosmos.ChangeFeedOptions{MaxItemCount: items}
	if continuation == "" {
		o.FeedRange = &of
	} else {
		o.Continuation = &continuation
	}
	return r.o.Read(ctx, r.source, o)
}

// errNoEnd says that Cosmos DB named no position for "now".
var errNoEnd = errors.New("the change feed does not tell where it ends")

// everything is the range of all keys.
var everything = azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}

// end asks for the changes after the last one, of which there are none, and so
// learns where every range ends. It names them all: azcosmos does not read a range
// that more than eight physical partitions share.
func (r reader) end(ctx context.Context) (continuation, error) {
	ranges, err := r.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return continuation{}, err
	}
	etag := fromNow
	page, err := r.read(ctx, everything, start(&etag, ranges...).String(), r.o.MaxItems)
	if err != nil {
		return continuation{}, err
	}
	at, err := parseContinuation(page.ContinuationToken)
	if err == nil && slices.ContainsFunc(at.Positions, func(p position) bool { return p.ETag == nil || *p.ETag == fromNow }) {
		err = errNoEnd
	}
	return at, err
}

// fullPage is how many bytes of changes make a page full. Cosmos DB ends a page at
// 4 MB, and an item has 2 MB at most: a page that it has ended has more than this.
const fullPage = 2 << 20

// handled is a page that was handled.
type handled struct {
	Progress
	at   string // the continuation after it
	full bool   // more is to be expected at once
}

// step reads a page and has it handled.
func (r reader) step(ctx context.Context, of azcosmos.FeedRange, continuation string, handle Handler) (handled, error) {
	progress := Progress{Range: of, Asked: r.o.Clock()}
	page, err := r.read(ctx, of, continuation, r.o.MaxItems)
	if err != nil {
		if r.madeAnew(ctx, continuation, err) {
			err = errMadeAnew
		}
		return handled{}, err
	}
	progress.Items = len(page.Items)
	if progress.Items > 0 {
		began := r.o.Clock()
		if err := handle(ctx, page.Items); err != nil {
			return handled{}, err
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
	return handled{progress, page.ContinuationToken, r.full(page.Items)}, nil
}

// errMadeAnew says that a continuation is of a container that is gone, and that
// another has its name.
var errMadeAnew = errors.New("the container was made anew")

// madeAnew reports whether that is why a page could not be read: azcosmos refuses the
// continuation then, without asking Cosmos DB, by an error of no type.
func (r reader) madeAnew(ctx context.Context, at string, err error) bool {
	var answered *azcore.ResponseError
	c, malformed := parseContinuation(at)
	if malformed != nil || c.ResourceID == "" || errors.As(err, &answered) {
		return false
	}
	now, err := r.source.Read(ctx, nil)
	return err == nil && now.ContainerProperties.ResourceID != c.ResourceID
}

// full reports whether a page has as much as a page may have.
func (r reader) full(items [][]byte) bool {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	return len(items) >= int(r.o.MaxItems) || size >= fullPage
}

// failed logs a failure and waits before the next try. It reports false if ctx
// has ended.
func (r reader) failed(ctx context.Context, retry *backoff, of azcosmos.FeedRange, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	d, throttled := retry.after(err)
	level := slog.LevelWarn
	if throttled {
		level = slog.LevelDebug
	}
	r.o.Observe(Progress{Range: of, Err: err})
	r.o.Logger.Log(ctx, level, "change feed: trying again", logRange, spanOf(of), logError, err, logRetryIn, d)
	return sleep(ctx, d)
}

// system is what Cosmos DB adds to an item of the change feed.
type system struct {
	LSN int64 `json:"_lsn"`
	TS  int64 `json:"_ts"`
}

func systemOf(item []byte) (s system) {
	_ = json.Unmarshal(item, &s) // an item without them is as good as no news
	return s
}

// lag is how many transactions the range has after the one that wrote the item.
func lag(page azcosmos.ChangeFeedResponse, item []byte) int64 {
	if page.RawResponse == nil {
		return 0
	}
	// <range>:<version>#<LSN>[#<region>=<LSN>...]
	fields := strings.Split(page.RawResponse.Header.Get("x-ms-session-token"), "#")
	if len(fields) < 2 {
		return 0
	}
	last, err := strconv.ParseInt(fields[1], 10, 64)
	lsn := systemOf(item).LSN
	if err != nil || lsn == 0 {
		return 0
	}
	return max(0, last-lsn)
}
