package emulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
)

// Clients read the partition key ranges of a container as a change feed: all ranges, then those that have changed,
// until 304. While a range splits, the service changes its document, so that a client that reads all ranges receives it
// a second time, with its next revision. After the split the client receives the children, which name it among their
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

// StartSplit begins the split of a physical partition: until Split, the partition serves requests as before, but
// clients that read the ranges receive it again. Closing the engine ends it without a split. It is for tests.
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
		r := &response{status: http.StatusNotModified, etag: end.etag(), charge: charge.NotModified, container: c}
		return r, nil
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
	return fmt.Appendf(nil,
		`{"_rid":%q,"id":%q,"_etag":%q,"minInclusive":%q,"maxExclusive":%q,"ridPrefix":%d,"_self":"%spkranges/%s/","throughputFraction":%s,"status":%q,"parents":[%s],"ownedArchivalPKRangeIds":[],"_ts":%d,"lsn":%d}`,
		rid, p.ID(), etag, partitionkey.FormatEPK(p.Min), partitionkey.FormatEPK(p.Max), p.No, c.SelfLink, rid,
		strconv.FormatFloat(1/float64(len(c.ranges)), 'g', 6, 64), status, strings.Join(parents, ","),
		c.def.record.Timestamp,
		p.synced.Load())
}

// splitBatchBytes is the size of the batches of a split.
const splitBatchBytes = 4 << 20

// Split splits a physical partition into two halves of its key space, as the service does when a
// partition grows. Requests on the container wait. The children continue the parent's LSNs, so a
// position in its change feed is valid in each of theirs. From then on, the parent's id gets 410
// with substatus 1002. A split is atomic; see StartSplit for one that takes its time.
func (e *Engine) Split(database, container, rangeID string) error {
	return e.changeRange(database, container, rangeID, (*metaChange).split)
}

// changeRange calls change with the locked container and the index of a range. The change is atomic.
func (e *Engine) changeRange(database, name, rangeID string, change func(*metaChange, *container, int) error) error {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.closed {
		return errClosed
	}
	return e.changeMeta(context.Background(), func(m *metaChange) error {
		d := m.cat.databases[database]
		if d == nil || d.containers[name] == nil {
			return apierror.OwnerNotFound()
		}
		c := d.containers[name]
		m.lock(c)
		if c.deleted {
			return apierror.OwnerNotFound()
		}
		at := slices.IndexFunc(c.ranges, func(p *partition) bool { return p.ID() == rangeID })
		if at < 0 {
			return apierror.RangeGone()
		}
		return change(m, c, at)
	})
}

func (m *metaChange) split(c *container, at int) error {
	parent := c.ranges[at]
	middle, err := c.def.key.Middle(&parent.Range)
	if err != nil {
		return err
	}
	no := uint32(0) // numbers are not reused: every former partition is an ancestor
	for _, p := range c.ranges {
		no = max(no, p.No+1)
		for _, gone := range p.Parents {
			no = max(no, gone+1)
		}
	}
	if no+2 > layout.MaxRanges {
		return fmt.Errorf("container %s: cannot have more than %d physical partitions over time", c.altPath, no)
	}
	parents := append(slices.Clone(parent.Parents), parent.No)
	children := []*partition{
		{Range: partitionkey.Range{No: no, Min: parent.Min, Max: middle, Parents: parents}},
		{Range: partitionkey.Range{No: no + 1, Min: middle, Max: parent.Max, Parents: parents}},
	}
	if err := m.moveFeed(c, parent, children); err != nil {
		return err
	}
	if err := m.batch.Delete(layout.LSNKey(c.No, parent.No), nil); err != nil {
		return err
	}
	for _, p := range children {
		p.lsn = parent.lsn // c is locked: no writes
		p.applied.Store(p.lsn)
		p.synced.Store(p.lsn) // the change is durable before p is visible
		if err := m.batch.Set(layout.LSNKey(c.No, p.No), binary.BigEndian.AppendUint64(nil, p.lsn), nil); err != nil {
			return err
		}
	}
	ranges := slices.Concat(c.ranges[:at], children, c.ranges[at+1:])
	def := *c.def
	def.record.Gone = append(slices.Clone(def.record.Gone), parent.ID())
	def.record.Ranges = nil
	for _, p := range ranges {
		def.record.Ranges = append(def.record.Ranges, p.Record())
	}
	m.onCommit = append(m.onCommit, func() {
		c.ranges, c.def, c.former = ranges, &def, append(c.former, formerRange{parent, no})
	})
	return m.set(layout.MetaContainer, c.No, def.record)
}

// moveFeed moves the change feed to the children. Until the change commits, the new entries are
// under unused numbers; after a crash, the next attempt clears them.
func (m *metaChange) moveFeed(c *container, parent *partition, children []*partition) error {
	db := m.e.db
	batch := db.NewBatch()
	defer func() { batch.Close() }()
	for _, p := range children {
		prefix := layout.AppendFeedPrefix(nil, c.No, p.No)
		if err := batch.DeleteRange(prefix, layout.PrefixEnd(prefix), nil); err != nil {
			return err
		}
	}
	prefix := layout.AppendFeedPrefix(nil, c.No, parent.No)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.PrefixEnd(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	n := c.def.key.EPKLength()
	var key []byte
	for it.First(); it.Valid(); it.Next() {
		p := children[0]
		if epk := it.Value()[:n]; bytes.Compare(epk, p.Max) >= 0 {
			p = children[1]
		}
		key = append(layout.AppendFeedPrefix(key[:0], c.No, p.No), it.Key()[len(prefix):]...)
		if err := batch.Set(key, it.Value(), nil); err != nil {
			return err
		}
		if batch.Len() < splitBatchBytes {
			continue
		}
		if err := m.e.applyPart(batch); err != nil {
			return err
		}
		if err := batch.Close(); err != nil {
			return err
		}
		batch = db.NewBatch()
	}
	if err := it.Error(); err != nil {
		return err
	}
	if err := m.batch.DeleteRange(prefix, layout.PrefixEnd(prefix), nil); err != nil {
		return err
	}
	return m.e.applyPart(batch)
}
