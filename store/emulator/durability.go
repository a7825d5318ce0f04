package emulator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// durability tells what of the engine's writes is durable, and who waits for it.
//
// A write is visible in Pebble before its log is synced, so that the requests
// that wait can share a sync. The invariant that keeps this from clients: no
// answer rests on an LSN of a partition that is later than the partition's
// synced one. Writes wait for their own sync; every other answer calls waitSynced.
type durability struct {
	noSync  bool
	failed  atomic.Pointer[error] // of the first write that could not be made durable: none is taken any more
	ended   chan struct{}         // closed when failed is set
	waiting atomic.Int64          // how many wait, so that a writer need not ask for the mutex

	mu     sync.Mutex
	synced *sync.Cond // on mu: some partition's synced LSN rose, failed was set, or a waiter's context ended
}

func newDurability(noSync bool) *durability {
	d := &durability{noSync: noSync, ended: make(chan struct{})}
	d.synced = sync.NewCond(&d.mu)
	return d
}

// apply hands a batch to Pebble. The caller holds the mutex of p, so that
// batches come in the order of their LSNs.
func (d *durability) apply(db *pebble.DB, batch *pebble.Batch, p *partition, lsn uint64) error {
	p.applied.Store(lsn) // first: who sees the batch must find this
	if d.noSync {
		if err := d.lost(db.Apply(batch, pebble.NoSync)); err != nil {
			return err
		}
		d.markSynced(p, lsn)
		return nil
	}
	return db.ApplyNoSyncWait(batch, pebble.Sync)
}

// lost turns what Pebble says of a write into what has become of it: see disk.
func (d *durability) lost(err error) error {
	if first := d.failed.Load(); first != nil {
		return fmt.Errorf("%w: %w", errFrozen, *first)
	}
	return err
}

// wait waits until a batch that was applied is durable. It does not end with the
// request's context: Pebble cannot be told, and what is applied cannot be taken
// back, so the writer learns what became of it.
func (d *durability) wait(batch *pebble.Batch, p *partition, lsn uint64) error {
	if d.noSync {
		return nil
	}
	if err := d.lost(batch.SyncWait()); err != nil {
		return err
	}
	d.markSynced(p, lsn)
	return nil
}

// markSynced records that lsn and everything before it is durable.
func (d *durability) markSynced(p *partition, lsn uint64) {
	for {
		have := p.synced.Load()
		if have >= lsn {
			return
		}
		if p.synced.CompareAndSwap(have, lsn) {
			break
		}
	}
	if d.waiting.Load() > 0 {
		d.wake()
	}
}

func (d *durability) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced.Broadcast()
}

// waitSynced waits until lsn is durable, or ctx ends. Usually lsn is durable.
func (d *durability) waitSynced(ctx context.Context, p *partition, lsn uint64) error {
	if p.synced.Load() >= lsn {
		return nil
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	defer context.AfterFunc(ctx, d.wake)()
	d.mu.Lock()
	defer d.mu.Unlock()
	for p.synced.Load() < lsn {
		if d.failed.Load() != nil {
			return notDurable()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d.synced.Wait()
	}
	return nil
}

// writesFailed stops all writing, because one could not be made durable: nothing on the disk
// changes any more. It logs one line. What is read still goes through waitSynced: an answer
// that could rest on the lost write is a 503.
func (e *Engine) writesFailed(err error) {
	if e.durable.failed.CompareAndSwap(nil, &err) {
		e.log.Error("write could not be made durable: writes are refused until the engine is opened again; reads go on, but on the physical partitions of lost writes only those by id of items that are durable", "err", err.Error())
		close(e.durable.ended)
	}
	e.durable.wake()
}

func notDurable() *apiError {
	return unavailable("The engine cannot write to its data directory.")
}

// syncLoop writes what Pebble's log keeps in memory, where requests do not wait
// for it: so that a crash costs the last second, however quiet it was before.
func (e *Engine) syncLoop(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.durable.lost(e.db.LogData(nil, pebble.Sync)); err != nil {
				e.writesFailed(err)
				return
			}
		}
	}
}
