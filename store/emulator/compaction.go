package emulator

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// compactions lets Pebble run one compaction at a time, and none before it is open: its Open
// flushes what it replays of the log, and would then wait, for seconds, until the compaction
// that this makes due has ended. So Open counts as the first one, and open ends it. A data
// directory in a format older than any of Byline's would need compactions within Open.
type compactions struct {
	db   pebble.DBForCompaction
	idle atomic.Bool // no compaction runs

	ended atomic.Bool
	life  sync.RWMutex // held for reading while db is called by the scheduler
}

// open says that Pebble's Open has succeeded.
func (c *compactions) open() { c.Done() }

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler.
func (c *compactions) Unregister() {
	c.ended.Store(true)
	c.life.Lock() // nobody is under way any more
	defer c.life.Unlock()
}

// TrySchedule implements pebble.CompactionScheduler. Who is refused waits for Done.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	return !c.ended.Load() && c.idle.CompareAndSwap(true, false), c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler: it is one, always.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Done implements pebble.CompactionGrantHandle: it starts the compaction that waits.
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
