package changefeed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// continuation is a decoded change feed continuation token of azcosmos: a position for each of its
// ranges. The first one is read next.
type continuation struct {
	Version    int        `json:"version,omitempty"`
	ResourceID string     `json:"resourceId"`
	Positions  []position `json:"continuation"`
}

// position is how far a range has been read: the ETag of its last page; nil for the beginning of
// the feed; fromNow for its end.
type position struct {
	MinInclusive string       `json:"minInclusive"`
	MaxExclusive string       `json:"maxExclusive"`
	ETag         *azcore.ETag `json:"continuationToken,omitempty"`
}

const fromNow azcore.ETag = "*"

func (p position) feedRange() azcosmos.FeedRange {
	return azcosmos.FeedRange{MinInclusive: p.MinInclusive, MaxExclusive: p.MaxExclusive}
}

// start returns a continuation that begins at one position in several ranges.
func start(etag *azcore.ETag, ranges ...azcosmos.FeedRange) continuation {
	c := continuation{Version: 1}
	for _, r := range ranges {
		c.Positions = append(c.Positions, position{r.MinInclusive, r.MaxExclusive, etag})
	}
	return c
}

func parseContinuation(token string) (c continuation, err error) {
	if err = json.Unmarshal([]byte(token), &c); err == nil && len(c.Positions) == 0 {
		err = fmt.Errorf("no ranges")
	}
	if err != nil {
		return c, fmt.Errorf("continuation %q: %w", token, err)
	}
	return c, nil
}

func (c continuation) String() string {
	b, _ := json.Marshal(c) // cannot fail: only strings and numbers
	return string(b)
}

// within returns the continuation for a part of the ranges, or for a range that they were merged
// into: the lowest of their positions, so that no change is skipped.
//
// Positions of merged ranges can be compared: a merged range keeps the LSN of every item.
func (c continuation) within(r azcosmos.FeedRange) continuation {
	at := position{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive}
	for i, p := range c.overlapping(r) {
		if i == 0 || earlier(p.ETag, at.ETag) {
			at.ETag = p.ETag
		}
	}
	return continuation{c.Version, c.ResourceID, []position{at}}
}

func (c continuation) overlapping(r azcosmos.FeedRange) []position {
	return slices.DeleteFunc(slices.Clone(c.Positions), func(p position) bool { return !overlap(p.feedRange(), r) })
}

// lastLSN returns the highest position of the ranges that overlap r.
func (c continuation) lastLSN(r azcosmos.FeedRange) (last uint64) {
	for _, p := range c.overlapping(r) {
		last = max(last, lsnOf(p.ETag))
	}
	return last
}

// firstLSN returns the lowest position.
func (c continuation) firstLSN() uint64 {
	first := lsnOf(c.Positions[0].ETag)
	for _, p := range c.Positions {
		first = min(first, lsnOf(p.ETag))
	}
	return first
}

// feedRangesOf returns the ranges of positions, in order.
func feedRangesOf(positions []position) []azcosmos.FeedRange {
	var ranges []azcosmos.FeedRange
	for _, p := range positions {
		ranges = append(ranges, p.feedRange())
	}
	slices.SortFunc(ranges, func(a, b azcosmos.FeedRange) int { return compareKeys(a.MinInclusive, b.MinInclusive) })
	return ranges
}

// earlier reports whether a is before b. An ETag that is not an LSN counts as the beginning.
func earlier(a, b *azcore.ETag) bool {
	return lsnOf(a) < lsnOf(b)
}

func lsnOf(etag *azcore.ETag) uint64 {
	if etag == nil {
		return 0
	}
	lsn, err := strconv.ParseUint(strings.Trim(string(*etag), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return lsn
}

// spanOf formats a range for ids and logs.
func spanOf(r azcosmos.FeedRange) string { return r.MinInclusive + "-" + r.MaxExclusive }

// overlap reports whether two feed ranges intersect.
func overlap(a, b azcosmos.FeedRange) bool {
	return compareKeys(a.MinInclusive, b.MaxExclusive) < 0 && compareKeys(b.MinInclusive, a.MaxExclusive) < 0
}

// inside reports whether a lies within b.
func inside(a, b azcosmos.FeedRange) bool {
	return compareKeys(a.MinInclusive, b.MinInclusive) >= 0 && compareKeys(a.MaxExclusive, b.MaxExclusive) <= 0
}

// narrower reports whether a lies within b and is smaller.
func narrower(a, b azcosmos.FeedRange) bool { return inside(a, b) && !inside(b, a) }

// compareKeys orders the bounds of ranges. Bounds of hierarchical keys may differ in their trailing
// zeros.
func compareKeys(a, b string) int {
	return cmp.Compare(strings.TrimRight(a, "0"), strings.TrimRight(b, "0"))
}

// intersection returns what two overlapping ranges share.
func intersection(a, b azcosmos.FeedRange) azcosmos.FeedRange {
	if compareKeys(b.MinInclusive, a.MinInclusive) > 0 {
		a.MinInclusive = b.MinInclusive
	}
	if compareKeys(b.MaxExclusive, a.MaxExclusive) < 0 {
		a.MaxExclusive = b.MaxExclusive
	}
	return a
}

// uncovered returns the parts of a range that none of the others covers.
func uncovered(r azcosmos.FeedRange, others []azcosmos.FeedRange) (left []azcosmos.FeedRange) {
	others = slices.SortedFunc(slices.Values(others),
		func(a, b azcosmos.FeedRange) int { return compareKeys(a.MinInclusive, b.MinInclusive) })
	for _, o := range others {
		if !overlap(o, r) {
			continue
		}
		if compareKeys(o.MinInclusive, r.MinInclusive) > 0 {
			left = append(left, azcosmos.FeedRange{MinInclusive: r.MinInclusive, MaxExclusive: o.MinInclusive})
		}
		r.MinInclusive = o.MaxExclusive
		if compareKeys(r.MinInclusive, r.MaxExclusive) >= 0 {
			return left
		}
	}
	return append(left, r)
}
