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

// continuation is azcosmos's continuation token of a change feed, opened: a
// position for each of some ranges, the one that is read next first.
type continuation struct {
	Version    int        `json:"version,omitempty"`
	ResourceID string     `json:"resourceId"`
	Positions  []position `json:"continuation"`
}

// position is how far a range has been read: the ETag of its last page, nil for
// the beginning, and fromNow for what comes after the next read.
type position struct {
	MinInclusive string       `json:"minInclusive"`
	MaxExclusive string       `json:"maxExclusive"`
	ETag         *azcore.ETag `json:"continuationToken,omitempty"`
}

const fromNow azcore.ETag = "*"

func (p position) feedRange() azcosmos.FeedRange {
	return azcosmos.FeedRange{MinInclusive: p.MinInclusive, MaxExclusive: p.MaxExclusive}
}

// start is the continuation at the same position of some ranges, before any page.
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
	b, _ := json.Marshal(c) // of strings and numbers alone
	return string(b)
}

// within is the continuation for a part of the ranges, or for a range that they
// were merged into: one position that skips nothing which any of them has still
// to read.
//
// The positions of ranges that were merged can be compared: a merged range keeps
// the LSN of every item, so that its parts can be read on at their own positions.
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

// lastLSN is the highest position of the ranges that have keys in common with r.
func (c continuation) lastLSN(r azcosmos.FeedRange) (last uint64) {
	for _, p := range c.overlapping(r) {
		last = max(last, lsnOf(p.ETag))
	}
	return last
}

// firstLSN is the lowest position.
func (c continuation) firstLSN() uint64 {
	first := lsnOf(c.Positions[0].ETag)
	for _, p := range c.Positions {
		first = min(first, lsnOf(p.ETag))
	}
	return first
}

// feedRangesOf returns the ranges in order.
func feedRangesOf(positions []position) []azcosmos.FeedRange {
	var ranges []azcosmos.FeedRange
	for _, p := range positions {
		ranges = append(ranges, p.feedRange())
	}
	slices.SortFunc(ranges, func(a, b azcosmos.FeedRange) int { return compareKeys(a.MinInclusive, b.MinInclusive) })
	return ranges
}

// earlier reports whether a is before b. What cannot be compared is taken as the
// beginning.
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

// spanOf is a range as a text.
func spanOf(r azcosmos.FeedRange) string { return r.MinInclusive + "-" + r.MaxExclusive }

// overlap reports whether two feed ranges have keys in common.
func overlap(a, b azcosmos.FeedRange) bool {
	return compareKeys(a.MinInclusive, b.MaxExclusive) < 0 && compareKeys(b.MinInclusive, a.MaxExclusive) < 0
}

// inside reports whether all keys of a are in b.
func inside(a, b azcosmos.FeedRange) bool {
	return compareKeys(a.MinInclusive, b.MinInclusive) >= 0 && compareKeys(a.MaxExclusive, b.MaxExclusive) <= 0
}

// finer reports whether a is a true part of b.
func finer(a, b azcosmos.FeedRange) bool { return inside(a, b) && !inside(b, a) }

// compareKeys orders the bounds of ranges. Bounds of hierarchical keys may differ
// in how many zeros they end with.
func compareKeys(a, b string) int {
	return cmp.Compare(strings.TrimRight(a, "0"), strings.TrimRight(b, "0"))
}

// common is what two ranges that overlap have in common.
func common(a, b azcosmos.FeedRange) azcosmos.FeedRange {
	if compareKeys(b.MinInclusive, a.MinInclusive) > 0 {
		a.MinInclusive = b.MinInclusive
	}
	if compareKeys(b.MaxExclusive, a.MaxExclusive) < 0 {
		a.MaxExclusive = b.MaxExclusive
	}
	return a
}

// uncovered returns what is left of a range without some others.
func uncovered(r azcosmos.FeedRange, others []azcosmos.FeedRange) (left []azcosmos.FeedRange) {
	others = slices.SortedFunc(slices.Values(others), func(a, b azcosmos.FeedRange) int { return compareKeys(a.MinInclusive, b.MinInclusive) })
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
