package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"byline/store/emulator/internal/layout"

	"github.com/cockroachdb/pebble/v2"
)

// entry is an index entry.
type entry struct {
	position []byte
	key      []byte // of its item; nil if out of scope
	looked   bool   // the item was looked up
	stored   []byte // stored value of the item; nil if it does not exist
}

// lookups has buffers for the index entries that are looked up together. It is pooled like scratch.
type lookups struct {
	entries []entry
	bytes   []byte // of the entries and their items
}

var lookupPool = sync.Pool{New: func() any { return new(lookups) }}

// release returns l to the pool.
func (l *lookups) release() {
	if cap(l.bytes) > layout.ScratchKept {
		l.bytes = nil
	}
	clear(l.entries[:cap(l.entries)])
	l.entries = l.entries[:0]
	lookupPool.Put(l)
}

// Limits of one batch of lookups: entries, and their bytes with their items, beside the last item.
const (
	maxAhead      = 128
	maxAheadBytes = layout.ScratchKept / 2
)

// visitEntries continues a scan over an index. It looks up the items of several entries at a time,
// in key order: a lookup near the last one is several times faster. Items beyond the end of the page
// are not charged.
func (r *Query) visitEntries(ctx context.Context, it *pebble.Iterator, valid bool, next func() bool, common int,
	fn visitor, pause func(position []byte),
) (stopped bool, err error) {
	ahead := lookupPool.Get().(*lookups)
	defer ahead.release()
	var check candidates
	if len(r.plan.check) > 0 {
		if check, err = r.openConditions(r.plan.check, nil, nil); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, check.close()) }()
	}
	seen := 0
	for valid {
		entries, buf := ahead.entries[:0], ahead.bytes[:0]
		most := max(1, min(r.ahead-r.rows, maxAhead))
		for ; valid && len(entries) < most && len(buf) < maxAheadBytes; valid = next() {
			var e entry
			e, buf = r.entryAt(it, common, buf)
			entries = append(entries, e)
		}
		if check != nil {
			if err := r.checkEntries(check, entries); err != nil {
				return false, err
			}
		}
		buf = r.lookAhead(entries, buf)
		ahead.entries, ahead.bytes = entries, buf
		for i := range entries {
			seen++
			if err := r.countEntry(ctx); err != nil {
				return false, err
			}
			more, err := r.visitEntry(&entries[i], fn)
			if err != nil || !more {
				return true, err
			}
			if pause != nil && seen >= MaxPageScan {
				pause(entries[i].position)
				return true, nil
			}
		}
	}
	return false, it.Error()
}

// entryAt reads the entry at the iterator. Its bytes are appended to buf.
func (r *Query) entryAt(it *pebble.Iterator, common int, buf []byte) (entry, []byte) {
	at := len(buf)
	buf = append(buf, it.Key()[common:]...)
	position := buf[at:len(buf):len(buf)]
	at = len(buf)
	buf = layout.AppendKind(buf, layout.KindItem, r.c.No)
	switch r.plan.kind.withoutFlags() {
	case planOrder:
		buf = append(buf, it.Value()...)
	case planRange, planInterval:
		n := int(binary.BigEndian.Uint16(it.Value()))
		buf = append(buf, position[len(position)-n:]...)
	case planComposite:
		n := int(binary.BigEndian.Uint16(it.Value()))
		buf = append(append(buf, r.scope.prefix...), position[len(position)-n:]...)
		return entry{position: position, key: buf[at:len(buf):len(buf)]}, buf
	}
	key := buf[at:len(buf):len(buf)]
	if !r.inScope(key[positionOffset:]) {
		return entry{position: position}, buf[:at]
	}
	return entry{position: position, key: key}, buf
}

// lookAhead looks up the items of entries and appends them to buf. It leaves errors to visitEntry,
// which may not reach the entry.
func (r *Query) lookAhead(entries []entry, buf []byte) []byte {
	if len(entries) < 2 {
		return buf
	}
	var order [maxAhead]uint8
	n := 0
	for i := range entries {
		if entries[i].key != nil {
			order[n] = uint8(i)
			n++
		}
	}
	slices.SortFunc(order[:n], func(a, b uint8) int { return bytes.Compare(entries[a].key, entries[b].key) })
	for _, i := range order[:n] {
		if len(buf) >= maxAheadBytes {
			break
		}
		e := &entries[i]
		stored, found, err := r.stored(e.key)
		if err != nil {
			break
		}
		if e.looked = true; found {
			at := len(buf)
			buf = append(buf, stored...)
			e.stored = buf[at:len(buf):len(buf)]
		}
	}
	return buf
}

// visitEntry visits the item of one index entry.
func (r *Query) visitEntry(e *entry, fn visitor) (more bool, err error) {
	if e.key == nil {
		return true, nil
	}
	stored, found := e.stored, e.stored != nil
	if !e.looked {
		if stored, found, err = r.stored(e.key); err != nil {
			return false, err
		}
	}
	if !found {
		return true, nil
	}
	if err := r.readRecord(stored); err != nil {
		return false, err
	}
	address := e.key[positionOffset:]
	if r.plan.kind.withoutFlags() == planInterval &&
		!r.plan.indexes(r.rec.Doc, e.position[:len(e.position)-len(address)]) {
		return true, nil
	}
	return r.emit(&r.rec, e.position, address, fn)
}

// lookup reads an item in the query's view, or returns nil. The record is valid until the next
// lookup.
func (r *Query) lookup(key []byte) (rec *layout.Record, err error) {
	stored, found, err := r.stored(key)
	if !found || err != nil {
		return nil, err
	}
	return &r.rec, r.readRecord(stored)
}

// stored returns the stored value of an item in the query's view. It is valid until the next
// lookup.
func (r *Query) stored(key []byte) (value []byte, found bool, err error) {
	if r.items == nil {
		if r.items, err = r.iterator(layout.AppendKind(make([]byte, 0, 5), layout.KindItem, r.c.No),
			layout.AppendKind(make([]byte, 0, 5), layout.KindItem, r.c.No+1)); err != nil {
			return nil, false, err
		}
	}
	if !r.items.SeekPrefixGE(key) || !bytes.Equal(r.items.Key(), key) {
		return nil, false, r.items.Error()
	}
	value, err = r.items.ValueAndErr()
	return value, err == nil, err
}
