package emulator

import (
	"bytes"
	"encoding/json"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
)

// reindexBatchBytes is the size of the batches of an index rebuild.
const reindexBatchBytes = 4 << 20

// reindex changes a container's definition and rebuilds its index, unless an item would exceed
// maxIndexed. The container is locked. Open finishes a rebuild that a crash interrupted.
func (m *metaChange) reindex(c *container, def *definition) error {
	if err := m.e.eachStored(c, def, func(x *index.Writer, rec *layout.Record) error {
		if x.SizeOf(rec) > index.MaxIndexed {
			return apierror.BadRequest(
				"The item '%s' would have more than the %d bytes of index entries that an item may have.", x.ID,
				index.MaxIndexed)
		}
		return nil
	}); err != nil {
		return err
	}
	r := def.record
	r.Reindexing = true
	first := &metaChange{e: m.e, batch: m.e.db.NewBatch()}
	defer first.batch.Close()
	if err := first.set(layout.MetaContainer, c.No, r); err != nil {
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
	return m.set(layout.MetaContainer, c.No, def.record)
}

// finishReindex completes an interrupted rebuild.
func (e *Engine) finishReindex(c *container) error {
	if err := e.rebuildIndex(c, c.def); err != nil {
		return err
	}
	c.def.record.Reindexing, c.def.record.Analysis = false, fulltext.Version
	m := &metaChange{e: e, batch: e.db.NewBatch()}
	defer m.batch.Close()
	if err := m.set(layout.MetaContainer, c.No, c.def.record); err != nil {
		return err
	}
	return e.durable.outcome(e.db.Apply(m.batch, pebble.Sync))
}

func (e *Engine) rebuildIndex(c *container, def *definition) error {
	batch := e.db.NewBatch()
	defer func() { batch.Close() }()
	for _, kind := range []byte{layout.KindComposite, layout.KindRange, layout.KindText,
		layout.KindExpiry} {
		if err := batch.DeleteRange(layout.AppendKind(nil, kind, c.No), layout.AppendKind(nil, kind, c.No+1),
			nil); err != nil {
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
	if err := e.eachStored(c, def, func(x *index.Writer, rec *layout.Record) error {
		if err := x.Rebuild(batch, rec); err != nil {
			return err
		}
		if batch.Len() > reindexBatchBytes {
			return flush()
		}
		return nil
	}); err != nil {
		return err
	}
	return flush()
}

// eachStored calls fn for the items of a container with an indexWriter under a definition. Both are
// valid only during the call.
func (e *Engine) eachStored(c *container, def *definition, fn func(x *index.Writer, rec *layout.Record) error) error {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: layout.AppendKind(nil, layout.KindItem, c.No),
		UpperBound: layout.AppendKind(nil, layout.KindItem, c.No+1)})
	if err != nil {
		return err
	}
	defer it.Close()
	var buf layout.Scratch
	for it.First(); it.Valid(); it.Next() {
		rec, err := c.ReadRecord(it.Value(), &buf.Doc)
		if err != nil {
			return err
		}
		address := bytes.Clone(it.Key()[layout.AddressOffset:])
		n := def.key.EPKLength()
		n += partitionkey.KeyLength(address[n:], len(def.key.Paths))
		x := index.Writer{Indexes: &def.index, TTL: def.ttl, Container: c.No, Partition: address[:n], Address: address,
			ID: string(address[n:]), Scratch: &buf}
		if err := fn(&x, &rec); err != nil {
			return err
		}
	}
	return it.Error()
}

// sameIndex reports whether two definitions need the same index entries.
func (d *definition) sameIndex(o *definition) bool {
	return d.ttl == o.ttl && sameJSON(d.record.Properties.IndexingPolicy, o.record.Properties.IndexingPolicy) &&
		sameJSON(d.record.Properties.FullText, o.record.Properties.FullText)
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
