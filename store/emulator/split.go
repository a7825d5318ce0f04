package emulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"byline/store/emulator/internal/apierror"

	"github.com/cockroachdb/pebble/v2"
)

// maxRanges is the most physical partitions that a container can have over time: resource ids begin
// with the number of the partition in which the item was created.
const (
	maxRanges  = 1 << 12
	birthShift = 64 - 12
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
		at := slices.IndexFunc(c.ranges, func(p *partition) bool { return p.id() == rangeID })
		if at < 0 {
			return apierror.RangeGone()
		}
		return change(m, c, at)
	})
}

func (m *metaChange) split(c *container, at int) error {
	parent := c.ranges[at]
	middle, err := c.def.key.middle(parent)
	if err != nil {
		return err
	}
	no := uint32(0) // numbers are not reused: every former partition is an ancestor
	for _, p := range c.ranges {
		no = max(no, p.no+1)
		for _, gone := range p.parents {
			no = max(no, gone+1)
		}
	}
	if no+2 > maxRanges {
		return fmt.Errorf("container %s: cannot have more than %d physical partitions over time", c.altPath, no)
	}
	parents := append(slices.Clone(parent.parents), parent.no)
	children := []*partition{
		{no: no, min: parent.min, max: middle, parents: parents},
		{no: no + 1, min: middle, max: parent.max, parents: parents},
	}
	if err := m.moveFeed(c, parent, children); err != nil {
		return err
	}
	if err := m.batch.Delete(lsnKey(c.no, parent.no), nil); err != nil {
		return err
	}
	for _, p := range children {
		p.lsn = parent.lsn // c is locked: no writes
		p.applied.Store(p.lsn)
		p.synced.Store(p.lsn) // the change is durable before p is visible
		if err := m.batch.Set(lsnKey(c.no, p.no), binary.BigEndian.AppendUint64(nil, p.lsn), nil); err != nil {
			return err
		}
	}
	ranges := slices.Concat(c.ranges[:at], children, c.ranges[at+1:])
	def := *c.def
	def.record.Gone = append(slices.Clone(def.record.Gone), parent.id())
	def.record.Ranges = nil
	for _, p := range ranges {
		def.record.Ranges = append(def.record.Ranges, rangeRecord{No: p.no, Min: formatEPK(p.min), Max: formatEPK(p.max), Parents: p.parents})
	}
	m.onCommit = append(m.onCommit, func() { c.ranges, c.def, c.former = ranges, &def, append(c.former, formerRange{parent, no}) })
	return m.set(metaContainer, c.no, def.record)
}

// moveFeed moves the change feed to the children. Until the change commits, the new entries are
// under unused numbers; after a crash, the next attempt clears them.
func (m *metaChange) moveFeed(c *container, parent *partition, children []*partition) error {
	db := m.e.db
	batch := db.NewBatch()
	defer func() { batch.Close() }()
	for _, p := range children {
		prefix := appendFeedPrefix(nil, c.no, p.no)
		if err := batch.DeleteRange(prefix, prefixEnd(prefix), nil); err != nil {
			return err
		}
	}
	prefix := appendFeedPrefix(nil, c.no, parent.no)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	n := c.def.key.epkLength()
	var key []byte
	for it.First(); it.Valid(); it.Next() {
		p := children[0]
		if epk := it.Value()[:n]; bytes.Compare(epk, p.max) >= 0 {
			p = children[1]
		}
		key = append(appendFeedPrefix(key[:0], c.no, p.no), it.Key()[len(prefix):]...)
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
	if err := m.batch.DeleteRange(prefix, prefixEnd(prefix), nil); err != nil {
		return err
	}
	return m.e.applyPart(batch)
}

// space returns the number of effective partition keys (of the first component, if hierarchical):
// V2 has 126 bits, V1 has 32.
func (d *partitionKeyPaths) space() *big.Int {
	bits := uint(126)
	if d.version == 1 {
		bits = 32
	}
	return new(big.Int).Lsh(big.NewInt(1), bits)
}

// slices cuts the key space into n equal physical partitions.
func (d *partitionKeyPaths) slices(n int) []rangeRecord {
	out := make([]rangeRecord, n)
	for i := range out {
		out[i].No = uint32(i)
		if i > 0 {
			at := new(big.Int).Mul(d.space(), big.NewInt(int64(i)))
			out[i].Min = formatEPK(at.Div(at, big.NewInt(int64(n))).FillBytes(make([]byte, 16)))
			out[i-1].Max = out[i].Min
		}
	}
	out[n-1].Max = "FF"
	return out
}

// middle returns the middle of a physical partition's key space.
func (d *partitionKeyPaths) middle(p *partition) ([]byte, error) {
	number := func(b []byte) *big.Int {
		full := make([]byte, 16)
		copy(full, b)
		return new(big.Int).SetBytes(full)
	}
	low, high := number(p.min), number(p.max)
	if space := d.space(); high.Cmp(space) > 0 {
		high = space
	}
	at := new(big.Int).Add(low, high)
	at.Rsh(at, 1)
	if at.Cmp(low) <= 0 {
		return nil, fmt.Errorf("partition key range %s: too small to split", p.id())
	}
	return at.FillBytes(make([]byte, 16)), nil
}
