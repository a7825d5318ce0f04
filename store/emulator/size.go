package emulator

import (
	"errors"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"

	"github.com/cockroachdb/pebble/v2"
)

// size is a number of items and the bytes of their documents. It includes expired items that are not
// purged yet.
type size struct{ items, bytes int }

// sizeOf returns the size of an item; 0 for nil.
func sizeOf(r *layout.Record) size {
	if r == nil {
		return size{}
	}
	return size{1, r.Size}
}

func (s *size) add(o size) {
	s.items += o.items
	s.bytes += o.bytes
}

func (s size) minus(o size) size { return size{s.items - o.items, s.bytes - o.bytes} }

// measure reads the items whose keys are in [low, high).
func (e *Engine) measure(c *container, low, high []byte) (s size, err error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var buf []byte
	for it.First(); it.Valid(); it.Next() {
		r, err := c.ReadRecord(it.Value(), &buf)
		if err != nil {
			return s, err
		}
		s.add(sizeOf(&r))
	}
	return s, it.Error()
}

// sizeOfPartition returns the size of a physical partition. The first call reads all of it, while
// writes to it wait; later writes maintain the size.
func (e *Engine) sizeOfPartition(c *container, p *partition) (size, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == nil {
		s, err := e.measure(c, layout.AppendItemKey(nil, c.No, p.Min), layout.AppendItemKey(nil, c.No, p.Max))
		if err != nil {
			return s, err
		}
		p.size = &s
	}
	return *p.size, nil
}

// grow records the size that a write adds, and returns 403 if its logical partition is full.
func (t *transaction) grow(by size) error {
	t.grown.add(by)
	if t.e.o.PartitionBytes == 0 {
		return nil
	}
	have, known := t.p.logical[string(t.partition)]
	if !known {
		var err error
		low := layout.AppendItemKey(nil, t.c.No, t.partition)
		if have, err = t.e.measure(t.c, low, layout.PrefixEnd(low)); err != nil {
			return err
		}
		if t.p.logical == nil {
			t.p.logical = map[string]size{}
		}
		t.p.logical[string(t.partition)] = have
	}
	if have.add(t.grown); by.bytes > 0 && int64(have.bytes) > t.e.o.PartitionBytes {
		return apierror.PartitionFull()
	}
	return nil
}

// resize updates the sizes of the partitions after the write is applied.
func (t *transaction) resize() {
	if t.p.size != nil {
		t.p.size.add(t.grown)
	}
	if have, known := t.p.logical[string(t.partition)]; known {
		have.add(t.grown)
		t.p.logical[string(t.partition)] = have
	}
}
