package emulator

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
)

// Clients read the partition key ranges of a container as a change feed: all ranges, then those that have changed, until
// 304. While a range splits, the service changes its document, so that a client that reads all ranges receives it a
// second time, with its next revision. After the split the client receives the children, which name it among their
// parents, and then the range itself once more, offline.

// Statuses of ranges.
const (
	rangeOnline    = "online"
	rangeSplitting = "splitting"
	rangeOffline   = "offline"
)

// formerRange is a range that was split.
type formerRange struct {
	*partition
	children uint32 // the number of the first
}

// rangesPosition is a position in the change feed of a container's ranges.
type rangesPosition struct {
	next     uint32 // number of the next range that will be created
	revision uint64 // see container.revision
}

// etag returns "5.2", or "5" while no range has begun to split.
func (p rangesPosition) etag() string {
	text := strconv.FormatUint(uint64(p.next), 10)
	if p.revision > 0 {
		text += "." + strconv.FormatUint(p.revision, 10)
	}
	return quoteETag(text)
}

// parseRangesPosition parses an etag. It reports false if it is missing or malformed.
func parseRangesPosition(etag string) (p rangesPosition, ok bool) {
	next, revision, changed := strings.Cut(strings.Trim(etag, `"`), ".")
	n, err := strconv.ParseUint(next, 10, 32)
	if err != nil || !changed {
		return rangesPosition{next: uint32(n)}, err == nil
	}
	r, err := strconv.ParseUint(revision, 10, 64)
	return rangesPosition{uint32(n), r}, err == nil
}

// StartSplit begins the split of a physical partition: until Split, the partition serves requests as before, but clients
// that read the ranges receive it again. Closing the engine ends it without a split. It is for tests.
func (e *Engine) StartSplit(database, name, rangeID string) error {
	return e.changeRange(database, name, rangeID, func(m *metaChange, c *container, at int) error {
		p := c.ranges[at]
		m.onCommit = append(m.onCommit, func() { p.splitting = true; c.changed(p) })
		return nil
	})
}

// changed gives a range its next revision.
func (c *container) changed(p *partition) { p.revision.Store(c.revision.Add(1)) }

// partitionKeyRanges serves /dbs/{db}/colls/{container}/pkranges.
func (e *Engine) partitionKeyRanges(q *request) (*response, error) {
	if q.method != http.MethodGet {
		return nil, apierror.MethodNotAllowed()
	}
	c, err := e.lookup(q)
	if err != nil {
		return nil, err
	}
	if err := c.rLock(q.ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	end := rangesPosition{uint32(len(c.ranges) + len(c.def.record.Gone)), c.revision.Load()}
	since, incremental := parseRangesPosition(q.get("If-None-Match"))
	incremental = incremental && since.next <= end.next && q.get("A-Im") != ""
	if !incremental {
		since = rangesPosition{}
	}
	rows := c.rangesSinceLocked(since, incremental)
	if incremental && len(rows) == 0 || q.notModified(end.etag()) {
		return &response{status: http.StatusNotModified, etag: end.etag(), charge: charge.NotModified, container: c}, nil
	}
	for _, p := range c.ranges {
		if !incremental && p.splitting {
			c.changed(p) // for the next request
		}
	}
	resp := listResponse("PartitionKeyRanges", c.rid, rows)
	resp.etag, resp.container = end.etag(), c
	return resp, nil
}

// rangesSinceLocked returns the ranges that have changed since a position; without incremental, all. The caller holds
// mu.
func (c *container) rangesSinceLocked(since rangesPosition, incremental bool) (rows [][]byte) {
	for _, p := range c.ranges {
		if incremental && p.No < since.next && p.revision.Load() <= since.revision {
			continue
		}
		status := rangeOnline
		if p.splitting {
			status = rangeSplitting
		}
		rows = append(rows, c.rangeBody(p, status))
	}
	for _, f := range c.former {
		if incremental && f.children >= since.next {
			rows = append(rows, c.rangeBody(f.partition, rangeOffline))
		}
	}
	return rows
}

// rangeBody returns the document of a range in the protocol's format.
func (c *container) rangeBody(p *partition, status string) []byte {
	rid := string(layout.AppendRangeRID(nil, c.RID, p.No))
	parents := make([]string, len(p.Parents))
	for i, no := range p.Parents {
		parents[i] = strconv.Quote(partitionkey.RangeID(no))
	}
	etag := quoteETag(layout.FormatETag(c.No, uint64(p.No), uint16(p.revision.Load()), c.def.record.Timestamp))
	return fmt.Appendf(nil, `{"_rid":%q,"id":%q,"_etag":%q,"minInclusive":%q,"maxExclusive":%q,"ridPrefix":%d,"_self":"%spkranges/%s/","throughputFraction":%s,"status":%q,"parents":[%s],"ownedArchivalPKRangeIds":[],"_ts":%d,"lsn":%d}`,
		rid, p.ID(), etag, partitionkey.FormatEPK(p.Min), partitionkey.FormatEPK(p.Max), p.No, c.SelfLink, rid,
		strconv.FormatFloat(1/float64(len(c.ranges)), 'g', 6, 64), status, strings.Join(parents, ","), c.def.record.Timestamp, p.synced.Load())
}
