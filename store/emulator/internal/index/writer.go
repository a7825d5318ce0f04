package index

import (
	"bytes"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// Cost is the index maintenance of a write, for its charge.
type Cost struct {
	Leaves     int // indexed leaves of an item that is created or deleted
	Composites int // composite index entries of the item
	Changed    int // paths whose terms were removed or added
	Moved      int // composite index entries that changed
	Postings   int // of full-text indexes, that changed
}

// MaxIndexed bounds the bytes of an item's entries in the range index, composite and full-text indexes
// and unique keys. Each entry has the item's address, and a value can be in many entries, so small items can
// have large entries.
const MaxIndexed = 32 << 20

// Writer writes the index entries of one item into a batch. It keeps its first error.
type Writer struct {
	Batch     *pebble.Batch
	Indexes   *Indexes
	TTL       layout.TTL
	Container uint32
	Partition []byte
	Address   []byte
	ID        string
	Scratch   *layout.Scratch
	stored    bool // already stored: exempt from maxIndexed
	Size      int  // of the entries so far
	err       error
}

// Replace replaces the entries of old by those of rec; either may be nil.
func (x *Writer) Replace(rangeNo uint32, old, rec *layout.Record) (Cost, error) {
	x.order(rangeNo, old, rec)
	x.expiry(old, rec)
	cost := x.values(old, rec)
	return cost, x.err
}

// Rebuild writes into a batch the entries that depend on the container's definition, for an item that is stored
// already, whatever their size.
func (x *Writer) Rebuild(batch *pebble.Batch, rec *layout.Record) error {
	x.Batch, x.stored = batch, true
	x.expiry(nil, rec)
	x.values(nil, rec)
	return x.err
}

func (x *Writer) set(key, value []byte) {
	if x.err == nil {
		x.err = x.Batch.Set(key, value, nil)
	}
}

func (x *Writer) delete(key []byte) {
	if x.err == nil {
		x.err = x.Batch.Delete(key, nil)
	}
}

// addSize counts bytes of the item's entries, and fails beyond maxIndexed.
func (x *Writer) addSize(n int) {
	if x.Size += n; x.Size > MaxIndexed && !x.stored && x.err == nil {
		x.err = apierror.TooLarge()
	}
}

// order maintains the entries in the change feed, at the item's latest LSN, and in the order of
// creation.
func (x *Writer) order(rangeNo uint32, old, rec *layout.Record) {
	no := x.Container
	if old != nil {
		x.delete(layout.AppendFeedKey(x.Scratch.Key[:0], no, rangeNo, old.LSN, old.Op))
	}
	if rec != nil {
		x.Scratch.Value = layout.AppendFeedValue(x.Scratch.Value[:0], x.Address, rec)
		x.set(layout.AppendFeedKey(x.Scratch.Key[:0], no, rangeNo, rec.LSN, rec.Op), x.Scratch.Value)
	}
	if old != nil && rec != nil && old.RID == rec.RID {
		return
	}
	if old != nil {
		x.delete(layout.AppendOrderKey(x.Scratch.Key[:0], no, old.RID))
	}
	if rec != nil {
		x.set(layout.AppendOrderKey(x.Scratch.Key[:0], no, rec.RID), x.Address)
	}
}

// expiry maintains the entry by which the purge finds the item.
func (x *Writer) expiry(old, rec *layout.Record) {
	if old != nil {
		if at, ok := x.TTL.Expiry(old); ok {
			x.delete(layout.AppendExpiryKey(x.Scratch.Key[:0], x.Container, at, x.Address))
		}
	}
	if rec != nil {
		if at, ok := x.TTL.Expiry(rec); ok {
			x.set(layout.AppendExpiryKey(x.Scratch.Key[:0], x.Container, at, x.Address), nil)
		}
	}
}

// values maintains the range index, the composite indexes and the full-text indexes.
func (x *Writer) values(old, rec *layout.Record) Cost {
	var cost Cost
	policy := x.Indexes
	var buf [2][32]leaf
	var before, after []leaf
	if old != nil {
		before = policy.leaves(buf[0][:0], old.Doc[:old.Client])
	}
	if rec != nil {
		after = policy.leaves(buf[1][:0], rec.Doc[:rec.Client])
	}
	cost.Composites = len(policy.Composites)
	switch {
	case rec == nil:
		cost.Leaves = len(before)
	case old == nil || old.RID != rec.RID: // the charge of a replace does not depend on it
		cost.Leaves = len(after)
	}
	x.addSize(x.rangeBytes(after))
	tail := lengthValue(len(x.Address))
	entry := func(l leaf, write func(key []byte)) {
		switch {
		case x.err != nil:
		case !l.isArray():
			write(appendRangeEntry(x.Scratch.Key[:0], x.Container, l, x.Address))
		case policy.HasTexts():
			for l := range l.elements {
				write(appendRangeEntry(x.Scratch.Key[:0], x.Container, l, x.Address))
			}
		}
	}
	cost.Changed = changedLeaves(before, after,
		func(l leaf) { entry(l, x.delete) },
		func(l leaf) { entry(l, func(key []byte) { x.set(key, tail) }) })

	for i := range policy.Composites {
		x.composite(&policy.Composites[i], old, rec, &cost)
	}
	for i := range policy.Texts {
		if t := &policy.Texts[i]; t.Indexed {
			x.text(t, old, rec, &cost)
		}
	}
	return cost
}

// rangeBytes estimates the size of the range index entries of leaves: 0 if they cannot exceed
// maxIndexed.
func (x *Writer) rangeBytes(leaves []leaf) int {
	const prefix = 1 + 4 + 8
	each, n, most := prefix+len(x.Address), 0, len(leaves)
	elements := x.Indexes.HasTexts()
	for _, l := range leaves {
		if elements && l.isArray() {
			most += len(l.raw) / 2
		}
	}
	if most*each <= MaxIndexed {
		return 0
	}
	for _, l := range leaves {
		switch {
		case !l.isArray():
			n++
		case elements:
			for range l.elements {
				n++
			}
		}
	}
	return n * each
}

// composite maintains the entry in one composite index.
func (x *Writer) composite(index *Composite, old, rec *layout.Record, cost *Cost) {
	if x.err != nil {
		return
	}
	var from, to []byte
	if old != nil {
		from = index.appendEntry(layout.AppendCompositePrefix(x.Scratch.From[:0], x.Container, index.No, x.Partition),
			old.Doc, x.ID)
	}
	if rec != nil {
		to = index.appendEntry(layout.AppendCompositePrefix(x.Scratch.To[:0], x.Container, index.No, x.Partition),
			rec.Doc,
			x.ID)
		x.addSize(len(to))
	}
	if bytes.Equal(from, to) {
		return
	}
	cost.Moved++
	if from != nil {
		x.delete(from)
	}
	if to != nil {
		x.set(to, lengthValue(len(x.ID)))
	}
}

// SizeOf estimates the bytes of an item's entries that count for maxIndexed: 0 if they cannot exceed
// it.
func (x *Writer) SizeOf(rec *layout.Record) int {
	const few = 4 << 10 // an item below this cannot exceed maxIndexed under any policy
	if rec.Client <= few {
		return 0
	}
	policy := x.Indexes
	size := x.rangeBytes(policy.leaves(nil, rec.Doc[:rec.Client]))
	for i := range policy.Composites {
		index := &policy.Composites[i]
		if size += len(index.appendEntry(layout.AppendCompositePrefix(nil, x.Container, index.No, x.Partition), rec.Doc,
			x.ID)); size > MaxIndexed {
			break
		}
	}
	for i := range policy.Texts {
		t := &policy.Texts[i]
		if v := t.of(rec); t.Indexed && v.Kind() == sql.String && size <= MaxIndexed {
			text := t.analyze(v)
			size += len(t.TextPrefix(x.Container, "")) + len(x.Address) + len(x.textHeader(text, rec))
			for key, posting := range t.postings(text, x.Container, x.Address) {
				size += len(key) + len(posting)
			}
		}
	}
	for no, paths := range policy.Uniques {
		size += len(AppendUniqueEntry(layout.AppendUniquePrefix(nil, x.Container, uint16(no), x.Partition), paths,
			rec.Doc))
	}
	return size
}
