package emulator

import (
	"bytes"
	"errors"

	"byline/store/emulator/internal/apierror"

	"github.com/cockroachdb/pebble/v2"
)

// indexCost is the index maintenance of a write, for its charge.
type indexCost struct {
	leaves     int // indexed leaves of an item that is created or deleted
	composites int // composite index entries of the item
	changed    int // paths whose terms were removed or added
	moved      int // composite index entries that changed
}

// maxIndexed bounds the bytes of an item's entries in the range index, composite indexes and unique
// keys. Each entry has the item's address, and a value can be in many entries, so small items can
// have large entries.
const maxIndexed = 32 << 20

// index replaces the entries of old by those of rec; either may be nil: change feed, order of
// creation, expiry, range index, composite indexes and unique keys.
func (t *transaction) index(id string, old, rec *record) (indexCost, error) {
	size, err := t.indexUnique(id, old, rec)
	if err != nil {
		return indexCost{}, err
	}
	address := t.itemKey(id)[positionOffset:]
	x := indexWriter{batch: t.batch, def: t.def, c: t.c, partition: t.partition, address: address, id: id, scratch: t.scratch, indexed: size}
	x.order(t.p.no, old, rec)
	x.expiry(old, rec)
	cost := x.values(old, rec)
	return cost, x.err
}

// indexWriter writes the index entries of one item into a batch. It keeps its first error.
type indexWriter struct {
	batch     *pebble.Batch
	def       *definition
	c         *container
	partition []byte
	address   []byte
	id        string
	scratch   *scratch
	stored    bool // already stored: exempt from maxIndexed
	indexed   int  // size of the entries so far
	err       error
}

func (x *indexWriter) set(key, value []byte) {
	if x.err == nil {
		x.err = x.batch.Set(key, value, nil)
	}
}

func (x *indexWriter) delete(key []byte) {
	if x.err == nil {
		x.err = x.batch.Delete(key, nil)
	}
}

// addSize counts bytes of the item's entries, and fails beyond maxIndexed.
func (x *indexWriter) addSize(n int) {
	if x.indexed += n; x.indexed > maxIndexed && !x.stored && x.err == nil {
		x.err = apierror.TooLarge()
	}
}

// order maintains the entries in the change feed, at the item's latest LSN, and in the order of
// creation.
func (x *indexWriter) order(rangeNo uint32, old, rec *record) {
	no := x.c.no
	if old != nil {
		x.delete(appendFeedKey(x.scratch.key[:0], no, rangeNo, old.lsn, old.op))
	}
	if rec != nil {
		x.scratch.value = appendFeedValue(x.scratch.value[:0], x.address, rec)
		x.set(appendFeedKey(x.scratch.key[:0], no, rangeNo, rec.lsn, rec.op), x.scratch.value)
	}
	if old != nil && rec != nil && old.rid == rec.rid {
		return
	}
	if old != nil {
		x.delete(appendOrderKey(x.scratch.key[:0], no, old.rid))
	}
	if rec != nil {
		x.set(appendOrderKey(x.scratch.key[:0], no, rec.rid), x.address)
	}
}

// expiry maintains the entry by which the purge finds the item.
func (x *indexWriter) expiry(old, rec *record) {
	if old != nil {
		if at, ok := x.def.expiry(old); ok {
			x.delete(appendExpiryKey(x.scratch.key[:0], x.c.no, at, x.address))
		}
	}
	if rec != nil {
		if at, ok := x.def.expiry(rec); ok {
			x.set(appendExpiryKey(x.scratch.key[:0], x.c.no, at, x.address), nil)
		}
	}
}

// values maintains the range index and the composite indexes.
func (x *indexWriter) values(old, rec *record) indexCost {
	var cost indexCost
	policy := &x.def.index
	var buf [2][32]leaf
	var before, after []leaf
	if old != nil {
		before = policy.leaves(buf[0][:0], old.doc[:old.client])
	}
	if rec != nil {
		after = policy.leaves(buf[1][:0], rec.doc[:rec.client])
	}
	cost.composites = len(policy.composites)
	switch {
	case rec == nil:
		cost.leaves = len(before)
	case old == nil || old.rid != rec.rid: // the charge of a replace does not depend on it
		cost.leaves = len(after)
	}
	x.addSize(x.rangeBytes(after))
	tail := lengthValue(len(x.address))
	entry := func(l leaf, write func(key []byte)) {
		if l.isArray() || x.err != nil {
			return
		}
		write(appendRangeEntry(x.scratch.key[:0], x.c.no, l, x.address))
	}
	cost.changed = changedLeaves(before, after,
		func(l leaf) { entry(l, x.delete) },
		func(l leaf) { entry(l, func(key []byte) { x.set(key, tail) }) })

	for i := range policy.composites {
		x.composite(&policy.composites[i], old, rec, &cost)
	}
	return cost
}

// rangeBytes estimates the size of the range index entries of leaves: 0 if they cannot exceed
// maxIndexed.
func (x *indexWriter) rangeBytes(leaves []leaf) int {
	const prefix = 1 + 4 + 8
	each, n := prefix+len(x.address), 0
	if len(leaves)*each <= maxIndexed {
		return 0
	}
	for _, l := range leaves {
		if !l.isArray() {
			n++
		}
	}
	return n * each
}

// composite maintains the entry in one composite index.
func (x *indexWriter) composite(index *compositeIndex, old, rec *record, cost *indexCost) {
	if x.err != nil {
		return
	}
	var from, to []byte
	if old != nil {
		from = index.appendEntry(appendCompositePrefix(x.scratch.from[:0], x.c.no, index.no, x.partition), old.doc, x.id)
	}
	if rec != nil {
		to = index.appendEntry(appendCompositePrefix(x.scratch.to[:0], x.c.no, index.no, x.partition), rec.doc, x.id)
		x.addSize(len(to))
	}
	if bytes.Equal(from, to) {
		return
	}
	cost.moved++
	if from != nil {
		x.delete(from)
	}
	if to != nil {
		x.set(to, lengthValue(len(x.id)))
	}
}

// indexUnique maintains the unique keys and refuses a value of another live item in the logical
// partition. It returns the size of the entries.
func (t *transaction) indexUnique(id string, old, rec *record) (size int, err error) {
	entry := func(no int, rec *record) []byte {
		if rec == nil {
			return nil
		}
		return appendUniqueEntry(appendUniquePrefix(nil, t.c.no, uint16(no), t.partition), t.def.index.uniques[no], rec.doc)
	}
	for no := range t.def.index.uniques { // check all before writing any: removing an owner removes all of its entries
		to := entry(no, rec)
		if size += len(to); size > maxIndexed {
			return size, apierror.TooLarge()
		}
		if to != nil && !bytes.Equal(entry(no, old), to) {
			if err := t.freeUnique(id, to); err != nil {
				return size, err
			}
		}
	}
	for no := range t.def.index.uniques {
		from, to := entry(no, old), entry(no, rec)
		if bytes.Equal(from, to) {
			continue
		}
		if to != nil {
			if err := t.batch.Set(to, []byte(id), nil); err != nil {
				return size, err
			}
		}
		if from != nil {
			if err := t.batch.Delete(from, nil); err != nil {
				return size, err
			}
		}
		if t.uniques != nil {
			if from != nil {
				t.uniques[string(from)] = ""
			}
			if to != nil {
				t.uniques[string(to)] = id
			}
		}
	}
	return size, nil
}

// freeUnique refuses an entry that another live item owns. An expired owner that is not purged yet is
// removed.
func (t *transaction) freeUnique(id string, entry []byte) error {
	owner, err := t.uniqueOwner(entry)
	if err != nil || owner == "" || owner == id {
		return err
	}
	stale, live, err := t.stored(owner, nil)
	if err != nil {
		return err
	}
	if live {
		return apierror.UniqueViolation()
	}
	if stale != nil {
		_, err = t.remove(owner, stale)
	}
	return err
}

func (t *transaction) uniqueOwner(key []byte) (string, error) {
	if id, ok := t.uniques[string(key)]; ok {
		return id, nil
	}
	v, closer, err := t.e.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	id := string(v)
	return id, closer.Close()
}

// reindexBatchBytes is the size of the batches of an index rebuild.
const reindexBatchBytes = 4 << 20

// reindex changes a container's definition and rebuilds its index, unless an item would exceed
// maxIndexed. The container is locked. Open finishes a rebuild that a crash interrupted.
func (m *metaChange) reindex(c *container, def *definition) error {
	if err := m.e.eachStored(c, def, func(x *indexWriter, rec *record) error {
		if x.size(rec) > maxIndexed {
			return apierror.BadRequest("The item '%s' would have more than the %d bytes of index entries that an item may have.", x.id, maxIndexed)
		}
		return nil
	}); err != nil {
		return err
	}
	r := def.record
	r.Reindexing = true
	first := &metaChange{e: m.e, batch: m.e.db.NewBatch()}
	defer first.batch.Close()
	if err := first.set(metaContainer, c.no, r); err != nil {
		return err
	}
	if err := m.e.durable.outcome(m.e.db.Apply(first.batch, pebble.Sync)); err != nil {
		return err
	}
	c.def = def // the old definition no longer matches the index
	if err := m.e.rebuildIndex(c, def); err != nil {
		m.e.writesFailed(err) // Open will finish the rebuild
		return notDurable()
	}
	return m.set(metaContainer, c.no, def.record)
}

// finishReindex completes an interrupted rebuild.
func (e *Engine) finishReindex(c *container) error {
	if err := e.rebuildIndex(c, c.def); err != nil {
		return err
	}
	c.def.record.Reindexing = false
	m := &metaChange{e: e, batch: e.db.NewBatch()}
	defer m.batch.Close()
	if err := m.set(metaContainer, c.no, c.def.record); err != nil {
		return err
	}
	return e.durable.outcome(e.db.Apply(m.batch, pebble.Sync))
}

func (e *Engine) rebuildIndex(c *container, def *definition) error {
	batch := e.db.NewBatch()
	defer func() { batch.Close() }()
	for _, kind := range []byte{kindComposite, kindRange, kindExpiry} {
		if err := batch.DeleteRange(appendKind(nil, kind, c.no), appendKind(nil, kind, c.no+1), nil); err != nil {
			return err
		}
	}
	flush := func() error {
		if err := e.applyPart(batch); err != nil {
			return err
		}
		if err := batch.Close(); err != nil {
			return err
		}
		batch = e.db.NewBatch()
		return nil
	}
	if err := flush(); err != nil {
		return err
	}
	if err := e.eachStored(c, def, func(x *indexWriter, rec *record) error {
		x.batch, x.stored = batch, true
		x.expiry(nil, rec)
		x.values(nil, rec)
		if x.err == nil && batch.Len() > reindexBatchBytes {
			return flush()
		}
		return x.err
	}); err != nil {
		return err
	}
	return flush()
}

// eachStored calls fn for the items of a container with an indexWriter under a definition. Both are
// valid only during the call.
func (e *Engine) eachStored(c *container, def *definition, fn func(x *indexWriter, rec *record) error) error {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: appendKind(nil, kindItem, c.no), UpperBound: appendKind(nil, kindItem, c.no+1)})
	if err != nil {
		return err
	}
	defer it.Close()
	var buf scratch
	for it.First(); it.Valid(); it.Next() {
		rec, err := c.readRecord(it.Value(), &buf.doc)
		if err != nil {
			return err
		}
		address := bytes.Clone(it.Key()[5:])
		n := def.key.epkLength()
		n += keyLength(address[n:], len(def.key.paths))
		x := indexWriter{def: def, c: c, partition: address[:n], address: address, id: string(address[n:]), scratch: &buf}
		if err := fn(&x, &rec); err != nil {
			return err
		}
	}
	return it.Error()
}

// size estimates the bytes of an item's entries that count for maxIndexed: 0 if they cannot exceed
// it.
func (x *indexWriter) size(rec *record) int {
	const few = 4 << 10 // an item below this cannot exceed maxIndexed under any policy
	if rec.client <= few {
		return 0
	}
	policy := &x.def.index
	size := x.rangeBytes(policy.leaves(nil, rec.doc[:rec.client]))
	for i := range policy.composites {
		index := &policy.composites[i]
		if size += len(index.appendEntry(appendCompositePrefix(nil, x.c.no, index.no, x.partition), rec.doc, x.id)); size > maxIndexed {
			break
		}
	}
	for no, paths := range policy.uniques {
		size += len(appendUniqueEntry(appendUniquePrefix(nil, x.c.no, uint16(no), x.partition), paths, rec.doc))
	}
	return size
}
