package storage

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// compactionScheduler runs one compaction at a time, and none before Pebble is open: pebble.Open
// flushes the replayed log and would wait for the compaction that the flush makes due. So
// pebble.Open counts as the first compaction, which open ends. A data directory in a format older
// than any of Byline's would need compactions within pebble.Open.
type compactionScheduler struct {
	db   pebble.DBForCompaction
	idle atomic.Bool // no compaction runs

	ended atomic.Bool
	life  sync.RWMutex // held for reading during calls of db
}

// open starts compactions once Pebble is open.
func (c *compactionScheduler) open() { c.Done() }

// Register implements pebble.CompactionScheduler.
func (c *compactionScheduler) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler.
func (c *compactionScheduler) Unregister() {
	c.ended.Store(true)
	c.life.Lock() // wait for calls under way
	defer c.life.Unlock()
}

// TrySchedule implements pebble.CompactionScheduler. A refused caller is scheduled by Done.
func (c *compactionScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	return !c.ended.Load() && c.idle.CompareAndSwap(true, false), c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (c *compactionScheduler) UpdateGetAllowedWithoutPermission() {}

// Done implements pebble.CompactionGrantHandle: it schedules the waiting compaction.
func (c *compactionScheduler) Done() {
	c.idle.Store(true)
	c.life.RLock()
	defer c.life.RUnlock()
	for !c.ended.Load() {
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.idle.CompareAndSwap(true, false) ||
			c.db.Schedule(c) {
			return
		}
		c.idle.Store(true)
	}
}

// Started implements pebble.CompactionGrantHandle.
func (c *compactionScheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactionScheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactionScheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}
