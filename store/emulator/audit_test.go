package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"

	"github.com/cockroachdb/pebble/v2"
)

// audit compares the index entries of every container with those that a full scan of its items requires.
func audit(t testing.TB, e *Engine) {
	t.Helper()
	for _, d := range e.catalog.Load().databases {
		for _, c := range d.containers {
			want, got := map[string][]byte{}, map[string][]byte{}
			scan(t, e, layout.KindItem, c, func(key, value []byte) { auditEntries(t, e, c, key[5:], value, want) })
			for _, kind := range []byte{layout.KindFeed, layout.KindOrder, layout.KindComposite, layout.KindRange,
				layout.KindText, layout.KindUnique, layout.KindExpiry} {
				scan(t, e, kind, c, func(key, value []byte) { got[string(key)] = value })
			}
			for key, value := range want {
				if v, ok := got[key]; !ok {
					t.Errorf("an entry is missing: %q", key)
				} else if !bytes.Equal(v, value) {
					t.Errorf("the entry %q is %q, want %q", key, v, value)
				}
			}
			for key := range maps.Keys(got) {
				if _, ok := want[key]; !ok {
					t.Errorf("an entry without an item: %q", key)
				}
			}
		}
	}
}

// auditEntries adds the entries that an item must have.
func auditEntries(t testing.TB, e *Engine, c *container, address, value []byte, want map[string][]byte) {
	t.Helper()
	rec, err := c.ReadRecord(value, nil)
	if err != nil {
		t.Fatalf("%q: %v", address, err)
	}
	n := c.def.key.EPKLength()
	p := c.rangeOfLocked(address[:n])
	n += partitionkey.KeyLength(address[n:], len(c.def.key.Paths))
	batch := e.db.NewBatch()
	defer batch.Close()
	x := index.Writer{Batch: batch, Indexes: &c.def.index, TTL: c.def.ttl, Container: c.No, Partition: address[:n],
		Address: address, ID: string(address[n:]), Scratch: new(layout.Scratch)}
	_, err = x.Replace(p.No, nil, &rec)
	for no, paths := range c.def.index.Uniques {
		key := index.AppendUniqueEntry(layout.AppendUniquePrefix(nil, c.No, uint16(no), address[:n]), paths, rec.Doc)
		err = errors.Join(err, batch.Set(key, address[n:], nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{} // several properties of an item may share an entry
	for r := batch.Reader(); ; {
		_, key, value, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		if _, ok := want[string(key)]; ok && !own[string(key)] {
			t.Errorf("two items have the entry %q", key)
		}
		want[string(key)], own[string(key)] = bytes.Clone(value), true
	}
}

// scan calls fn for the keys of one kind in a container.
func scan(t testing.TB, e *Engine, kind byte, c *container, fn func(key, value []byte)) {
	t.Helper()
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: layout.AppendKind(nil, kind, c.No),
		UpperBound: layout.AppendKind(nil, kind, c.No+1)})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		fn(it.Key(), bytes.Clone(it.Value()))
	}
	if err := it.Error(); err != nil {
		t.Fatal(fmt.Errorf("scan: %w", err))
	}
}
