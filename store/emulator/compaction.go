package emulator

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// compactions is a compaction scheduler that runs one compaction at a time, and none before Pebble
// is open. Open flushes the replayed log and would wait for the compaction that this makes due; so
// Open counts as the first compaction, and open ends it. A data directory in a format older than
// any of Byline's would need compactions within Open.
type compactions struct {
	db   pebble.DBForCompaction
	idle atomic.Bool // no compaction runs

	ended atomic.Bool
	life  sync.RWMutex // held for reading during calls of db
}

// open starts compactions once Pebble is open.
func (c *compactions) open() { c.Done() }

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler.
func (c *compactions) Unregister() {
	c.ended.Store(true)
	c.life.Lock() // wait for calls under way
	defer c.life.Unlock()
}

// TrySchedule implements pebble.CompactionScheduler. A refused caller is scheduled by Done.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	return !c.ended.Load() && c.idle.CompareAndSwap(true, false), c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Done implements pebble.CompactionGrantHandle: it schedules the waiting compaction.
func (c *compactions) Done() {
	c.idle.Store(true)
	c.life.RLock()
	defer c.life.RUnlock()
	for !c.ended.Load() {
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.idle.CompareAndSwap(true, false) || c.db.Schedule(c) {
			return
		}
		c.idle.Store(true)
	}
}

// Started implements pebble.CompactionGrantHandle.
func (c *compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
