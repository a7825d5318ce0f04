package emulator

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
)

// index replaces the entries of old by those of rec; either may be nil: change feed, order of
// creation, expiry, range index, composite indexes and unique keys.
func (t *transaction) index(id string, old, rec *layout.Record) (index.Cost, error) {
	size, err := t.indexUnique(id, old, rec)
	if err != nil {
		return index.Cost{}, err
	}
	address := t.itemKey(id)[layout.AddressOffset:]
	x := index.Writer{Batch: t.batch, Indexes: &t.def.index, TTL: t.def.ttl, Container: t.c.No, Partition: t.partition,
		Address: address, ID: id, Scratch: t.scratch, Size: size}
	return x.Replace(t.p.No, old, rec)
}

// indexUnique maintains the unique keys and refuses a value of another live item in the logical
// partition. It returns the size of the entries.
func (t *transaction) indexUnique(id string, old, rec *layout.Record) (size int, err error) {
	entry := func(no int, rec *layout.Record) []byte {
		if rec == nil {
			return nil
		}
		return index.AppendUniqueEntry(layout.AppendUniquePrefix(nil, t.c.No, uint16(no), t.partition),
			t.def.index.Uniques[no], rec.Doc)
	}
	for no := range t.def.index.Uniques { // check all before writing any: removing an owner removes all of its entries
		to := entry(no, rec)
		if size += len(to); size > index.MaxIndexed {
			return size, apierror.TooLarge()
		}
		if to != nil && !bytes.Equal(entry(no, old), to) {
			if err := t.freeUnique(id, to); err != nil {
				return size, err
			}
		}
	}
	for no := range t.def.index.Uniques {
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
