package emulator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/storage"

	"github.com/cockroachdb/pebble/v2"
)

// durability tracks which writes are durable.
//
// Pebble makes a write visible before its log is synced, so that waiting requests can share a sync.
// Invariant: no response depends on an LSN of a partition that is later than the partition's synced
// LSN. A write waits for its own sync; every other response calls waitSynced.
type durability struct {
	noSync  bool
	failed  atomic.Pointer[error] // set by the first write that failed; later writes are refused
	ended   chan struct{}         // closed when failed is set
	waiting atomic.Int64          // number of waiters, so that markSynced can skip the mutex

	mu     sync.Mutex
	synced *sync.Cond // on mu: a synced LSN rose, failed was set, or a waiter's context ended
}

func newDurability(noSync bool) *durability {
	d := &durability{noSync: noSync, ended: make(chan struct{})}
	d.synced = sync.NewCond(&d.mu)
	return d
}

// apply gives a batch to Pebble. The caller holds the mutex of p, so batches are applied in the
// order of their LSNs.
func (d *durability) apply(db *pebble.DB, batch *pebble.Batch, p *partition, lsn uint64) error {
	p.applied.Store(lsn) // first: a reader that sees the batch must see its LSN
	if d.noSync {
		if err := d.outcome(db.Apply(batch, pebble.NoSync)); err != nil {
			return err
		}
		d.markSynced(p, lsn)
		return nil
	}
	return db.ApplyNoSyncWait(batch, pebble.Sync)
}

// outcome returns the outcome of a write for which Pebble returned err: on a frozen disk it has failed
// even if err is nil.
func (d *durability) outcome(err error) error {
	if first := d.failed.Load(); first != nil {
		return fmt.Errorf("%w: %w", storage.ErrFrozen, *first)
	}
	return err
}

// wait waits until an applied batch is durable. It ignores the request's context: an applied batch
// cannot be canceled, so the writer waits for the outcome.
func (d *durability) wait(batch *pebble.Batch, p *partition, lsn uint64) error {
	if d.noSync {
		return nil
	}
	if err := d.outcome(batch.SyncWait()); err != nil {
		return err
	}
	d.markSynced(p, lsn)
	return nil
}

// markSynced records that all writes up to lsn are durable.
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

// waitSynced waits until lsn is durable or ctx ends. Usually it is durable already.
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

// writesFailed stops all writes after the first one that could not be made durable, and logs one
// line. Reads still go through waitSynced: a response that could depend on the lost write is a 503.
func (e *Engine) writesFailed(err error) {
	if e.durable.failed.CompareAndSwap(nil, &err) {
		e.o.Logger.Error(
			"write could not be made durable: writes are refused until restart, and partitions with lost writes "+
				"serve only point reads of durable items", "err", err.Error())
		close(e.durable.ended)
	}
	e.durable.wake()
}

func notDurable() *apierror.Error {
	return apierror.Unavailable("The engine cannot write to its data directory.")
}

// syncLoop syncs Pebble's log every second for engines with NoSync, so that a crash loses at most
// the last second.
func (e *Engine) syncLoop(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.durable.outcome(e.db.LogData(nil, pebble.Sync)); err != nil {
				e.writesFailed(err)
				return
			}
		}
	}
}
