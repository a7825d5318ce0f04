package emulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// transaction is the write of one request: one logical partition, one LSN, one Pebble batch. It
// runs under the mutex of its physical partition.
type transaction struct {
	e         *Engine
	q         *request // nil for purges, and in bulk requests, which are admitted once for all operations
	c         *container
	def       *definition
	key       partitionkey.Key
	partition []byte // prefix of the addresses
	p         *partition
	lsn       uint64
	ops       uint16 // number of writes, at most 100: resource ids have 8 bits for it
	grown     size   // what the writes add to the size of the partition
	batch     *pebble.Batch
	applied   bool             // set once batch is applied: Pebble takes over the bytes of large ones
	items     *pebble.Iterator // for lookups; nil until the first
	scratch   *layout.Scratch

	// Writes of a transactional batch so far: nil for deleted items. The maps are nil if there is
	// only one operation.
	written map[string]*layout.Record
	uniques map[string]string
}

// opResult is the outcome of an operation.
type opResult struct {
	status int
	charge float64
	rec    *layout.Record // nil after a delete
}

// commit runs fn in a transaction on the logical partition of key. If fn fails, nothing is written.
// It returns once the write is durable, or without a write, what fn has read.
func (e *Engine) commit(q *request, c *container, key partitionkey.Key, several bool,
	fn func(*transaction) error,
) (*partition, uint64, error) {
	t := transaction{e: e, q: q, c: c, key: key}
	if several {
		t.written, t.uniques = map[string]*layout.Record{}, map[string]string{}
	}
	return t.finish(q.ctx, t.apply(q.ctx, fn))
}

// commitAt is commit for a logical partition given by its address.
func (e *Engine) commitAt(ctx context.Context, c *container, address []byte,
	fn func(*transaction) error,
) (*partition, uint64, error) {
	t := transaction{e: e, c: c, partition: address}
	return t.finish(ctx, t.apply(ctx, fn))
}

// finish waits until the write of apply is durable, or without a write, until what it has read is durable or
// ctx ends. It takes and returns the error of apply.
func (t *transaction) finish(ctx context.Context, err error) (*partition, uint64, error) {
	e := t.e
	if err != nil || !t.applied {
		if t.batch != nil {
			err = errors.Join(err, t.batch.Close())
		}
		if t.lsn == 0 { // it has read nothing
			return t.p, 0, err
		}
		if werr := e.durable.waitSynced(ctx, t.p, t.lsn-1); werr != nil {
			return nil, 0, werr
		}
		return t.p, t.lsn - 1, err
	}
	if t.q != nil {
		t.q.leave() // so that the next request shares the sync
	}
	if err := e.durable.wait(t.batch, t.p, t.lsn); err != nil {
		e.writesFailed(err)
		return nil, 0, notDurable()
	}
	return t.p, t.lsn, t.batch.Close()
}

// apply runs fn and gives the batch to Pebble, in the order of LSNs. It writes nothing if ctx ends
// while the container is locked.
func (t *transaction) apply(ctx context.Context, fn func(*transaction) error) error {
	c := t.c
	if err := c.rLock(ctx); err != nil {
		return err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return apierror.OwnerNotFound()
	}
	t.def = c.def
	if t.partition == nil {
		t.partition = t.def.key.AppendPartition(make([]byte, 0, 96), t.key)
	}
	t.p = c.rangeOfLocked(t.partition[:t.def.key.EPKLength()])
	if t.q != nil {
		if err := t.e.admit(t.q, t.p); err != nil {
			return err
		}
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if t.e.durable.failed.Load() != nil {
		return notDurable()
	}
	t.lsn = t.p.lsn + 1
	t.batch = t.e.db.NewBatch()
	t.scratch = layout.GetScratch()
	err := fn(t)
	t.scratch.Release()
	if t.items != nil {
		if closing := t.items.Close(); closing != nil {
			err = errors.Join(err, closing)
		}
	}
	if err != nil || t.batch.Empty() {
		return err
	}
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], t.lsn)
	if err := t.batch.Set(layout.LSNKey(c.No, t.p.No), v[:], nil); err != nil {
		return err
	}
	if err := t.e.durable.apply(t.e.db, t.batch, t.p, t.lsn); err != nil {
		t.e.writesFailed(err)
		return notDurable()
	}
	t.p.lsn, t.applied = t.lsn, true
	t.resize()
	return nil
}

// operation is one operation, parsed and validated without the item.
type operation func(*transaction) (opResult, error)

// writeItem serves a request that writes one item.
func (e *Engine) writeItem(q *request, c *container, prepare func(*definition) (operation, error)) (*response, error) {
	d, err := c.definition(q.ctx)
	if err != nil {
		return nil, err
	}
	key, err := d.requestKey(q)
	if err != nil {
		return nil, err
	}
	op, err := prepare(d)
	if err != nil {
		return &response{container: c}, err
	}
	var res opResult
	p, lsn, err := e.commit(q, c, key, false, func(t *transaction) (err error) {
		res, err = op(t)
		return err
	})
	resp := &response{container: c, partition: p, lsn: lsn}
	if lsn > 0 {
		resp.session = sessionToken(p, lsn)
	}
	if err != nil {
		return resp, err
	}
	resp.status, resp.charge = res.status, res.charge
	if res.rec != nil {
		resp.etag = res.rec.ETag(c.No)
		if !q.minimal() {
			resp.body = res.rec.Doc
		}
	}
	return resp, nil
}

// definition returns the current definition.
func (c *container) definition(ctx context.Context) (*definition, error) {
	if err := c.rLock(ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	return c.def, nil
}

// itemKey returns the key of an item, valid until the next call.
func (t *transaction) itemKey(id string) []byte {
	return append(layout.AppendItemKey(t.scratch.Item[:0], t.c.No, t.partition), id...)
}

// stored returns an item, or nil, and whether it has not expired. buf is as for readRecord.
func (t *transaction) stored(id string, buf *[]byte) (rec *layout.Record, live bool, err error) {
	if r, ok := t.written[id]; ok {
		return r, r != nil, nil
	}
	if t.items == nil {
		// Unlike DB.Get this also uses the Bloom filters of the last level, where most items are,
		// so that a new id is recognised without reading a block.
		if t.items, err = t.e.db.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return nil, false, err
		}
	}
	key := t.itemKey(id)
	if !t.items.SeekPrefixGE(key) || !bytes.Equal(t.items.Key(), key) {
		return nil, false, t.items.Error()
	}
	return t.record(t.items.Value(), buf)
}

// known is stored for an item that probably exists.
func (t *transaction) known(id string, buf *[]byte) (rec *layout.Record, live bool, err error) {
	if r, ok := t.written[id]; ok {
		return r, r != nil, nil
	}
	v, closer, err := t.e.db.Get(t.itemKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	defer closer.Close()
	return t.record(v, buf)
}

func (t *transaction) record(stored []byte, buf *[]byte) (rec *layout.Record, live bool, err error) {
	r, err := t.c.ReadRecord(stored, buf)
	if err != nil {
		return nil, false, err
	}
	return &r, !t.def.ttl.Expired(&r, t.e.o.Clock), nil
}

// existing returns a live item and checks If-Match. buf is as for readRecord.
func (t *transaction) existing(id, match string, buf *[]byte) (*layout.Record, error) {
	rec, live, err := t.known(id, buf)
	if err != nil {
		return nil, err
	}
	if !live {
		return nil, apierror.ItemNotFound()
	}
	if match == "" {
		return rec, nil
	}
	return rec, checkIfMatch(match, rec.ETag(t.c.No))
}

func (t *transaction) checkKey(n *newItem) error {
	if !n.key.Equal(t.key) {
		return apierror.PartitionKeyMismatch(
			"PartitionKey extracted from document doesn't match the one specified in the header.")
	}
	return nil
}

func (t *transaction) create(n *newItem) (opResult, error) {
	if err := t.checkKey(n); err != nil {
		return opResult{}, err
	}
	old, live, err := t.stored(n.id, &t.scratch.Doc)
	if err != nil {
		return opResult{}, err
	}
	if live {
		return opResult{}, apierror.Conflict()
	}
	rec, cost, err := t.put(n, old, false)
	if err != nil {
		return opResult{}, err
	}
	return opResult{http.StatusCreated, charge.Create(len(rec.Doc), cost.Leaves, cost.Composites) +
		charge.Postings(cost.Postings), rec}, nil
}

func (t *transaction) upsert(n *newItem, match string) (opResult, error) {
	_, live, err := t.stored(n.id, &t.scratch.Doc)
	if err != nil {
		return opResult{}, err
	}
	if !live { // If-Match only applies to an existing item
		return t.create(n)
	}
	return t.replace(n.id, n, match)
}

func (t *transaction) replace(id string, n *newItem, match string) (opResult, error) {
	if err := t.checkKey(n); err != nil {
		return opResult{}, err
	}
	old, err := t.existing(id, match, &t.scratch.Doc)
	if err != nil {
		return opResult{}, err
	}
	if n.id != id {
		return opResult{}, apierror.BadRequest("The id of the item does not match the id in the request.")
	}
	rec, cost, err := t.put(n, old, true)
	if err != nil {
		return opResult{}, err
	}
	return opResult{http.StatusOK, charge.Replace(len(old.Doc), len(rec.Doc), cost.Changed, cost.Moved) +
		charge.Postings(cost.Postings), rec}, nil
}

func (t *transaction) patch(id string, p *patch, match string) (opResult, error) {
	old, err := t.existing(id, match, &t.scratch.Doc)
	if err != nil {
		return opResult{}, err
	}
	if p.condition != nil {
		if ok, err := p.condition.WithTexts(t.def.index.Analyzer).Matches(old.Doc); err != nil {
			return opResult{}, apierror.Query(err)
		} else if !ok {
			return opResult{}, apierror.PreconditionFailed()
		}
	}
	doc, err := p.apply(old.AppendClientDoc(make([]byte, 0, old.Client+len(t.c.SelfLink)+layout.SystemBytes+64)),
		&t.def.key)
	if err != nil {
		return opResult{}, err
	}
	if len(doc) > maxItemBytes {
		return opResult{}, apierror.TooLarge()
	}
	if p.nests && sql.TooDeep(doc) {
		return opResult{}, apierror.BadRequest("The document is nested more than %d levels deep.", sql.MaxNesting)
	}
	n, err := t.def.item(doc)
	if err != nil {
		return opResult{}, err
	}
	if err := t.checkKey(n); err != nil {
		return opResult{}, err
	}
	rec, cost, err := t.put(n, old, true)
	if err != nil {
		return opResult{}, err
	}
	return opResult{http.StatusOK, charge.Patch(len(old.Doc), len(rec.Doc), cost.Changed, cost.Moved, len(p.ops)) +
			charge.Postings(cost.Postings), rec},
		nil
}

func (t *transaction) delete(id, match string) (opResult, error) {
	old, err := t.existing(id, match, &t.scratch.Doc)
	if err != nil {
		return opResult{}, err
	}
	cost, err := t.remove(id, old)
	if err != nil {
		return opResult{}, err
	}
	return opResult{http.StatusNoContent, charge.Create(len(old.Doc), cost.Leaves, cost.Composites) +
		charge.Postings(cost.Postings), nil}, nil
}

func (t *transaction) read(id string) (opResult, error) {
	rec, err := t.existing(id, "", nil)
	if err != nil {
		return opResult{}, err
	}
	return opResult{http.StatusOK, charge.Read(len(rec.Doc)), rec}, nil
}

// put writes an item over old, which may be nil or, unless same, expired.
func (t *transaction) put(n *newItem, old *layout.Record, same bool) (*layout.Record, index.Cost, error) {
	rec := &layout.Record{LSN: t.lsn, Op: t.ops, Timestamp: t.e.o.Clock().Unix(), TTL: n.ttl}
	t.ops++
	if same {
		rec.RID = old.RID
	} else {
		rec.RID = uint64(t.p.No)<<layout.BirthShift | t.lsn<<8 | uint64(rec.Op)
	}
	rec.Finish(&t.c.Container, n.doc, n.doc)
	t.grown.add(sizeOf(rec).minus(sizeOf(old)))
	cost, err := t.index(n.id, old, rec)
	if err != nil {
		return nil, cost, err
	}
	t.scratch.Value = rec.Append(t.scratch.Value[:0])
	if err := t.batch.Set(t.itemKey(n.id), t.scratch.Value, nil); err != nil {
		return nil, cost, err
	}
	if t.written != nil {
		t.written[n.id] = rec
	}
	return rec, cost, nil
}

// remove deletes an item.
func (t *transaction) remove(id string, old *layout.Record) (index.Cost, error) {
	t.grown.add(size{}.minus(sizeOf(old)))
	cost, err := t.index(id, old, nil)
	if err != nil {
		return cost, err
	}
	if t.written != nil {
		t.written[id] = nil
	}
	return cost, t.batch.Delete(t.itemKey(id), nil)
}
