package emulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"

	"github.com/cockroachdb/pebble/v2"
)

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
	m.onCommit = append(m.onCommit, func() { c.ranges, c.def, c.former = ranges, &def, append(c.former, formerRange{parent, no}) })
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
