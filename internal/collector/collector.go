// Package collector tunes the garbage collector, unless GOGC or GOMEMLIMIT is set.
package collector

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// bulkLoadPercent is the GOGC of SetForBulkLoad: garbage may grow to four times the live heap.
const bulkLoadPercent = 400

// configured reports whether the environment configures the garbage collector.
func configured() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// minHeap is the heap of KeepMinHeap, in bytes. Go never collects at less than 4 MB times GOGC/100, so a GOGC over
// maxPercent would make a small heap larger than minHeap.
const (
	minHeap    = 20 << 20
	maxPercent = 100 * minHeap / (4 << 20)
)

// KeepMinHeap makes collections of a small heap rarer until the returned function is called: Go collects when the
// heap has 20 MB, or twice the live heap if that is more. The live heap is that of the previous collection. Servers
// of one process share the setting.
func KeepMinHeap() (restore func()) {
	if configured() {
		return func() {}
	}
	shared.begin()
	return shared.end
}

// goPercent is the share of the container's memory that Go may use. The rest is for the binary and for C.
const goPercent = 90

// LimitMemory sets Go's soft memory limit by that of the container, its cgroup, unless GOMEMLIMIT sets one.
func LimitMemory() { limitMemory(memlimit.FromCgroup) }

func limitMemory(container func() (uint64, error)) {
	if os.Getenv("GOMEMLIMIT") != "" || debug.SetMemoryLimit(-1) < math.MaxInt64 {
		return
	}
	if limit, err := container(); err == nil && limit < math.MaxInt64 {
		debug.SetMemoryLimit(int64(limit / 100 * goPercent))
	}
}

var shared tuner

// tuner sets GOGC after each collection, depending on the live heap.
type tuner struct {
	mu       sync.Mutex
	servers  int  // guarded by mu
	original int  // guarded by mu: GOGC without servers
	pending  bool // guarded by mu: the next collection calls tune
}

func (t *tuner) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.servers++; t.servers == 1 {
		t.original = debug.SetGCPercent(maxPercent)
		t.setLocked()
	}
}

func (t *tuner) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.servers--; t.servers == 0 {
		debug.SetGCPercent(t.original)
	}
}

func (t *tuner) tune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = false
	if t.servers > 0 {
		t.setLocked()
	}
}

// setLocked sets GOGC until the next collection. The caller holds mu.
func (t *tuner) setLocked() {
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(m)
	live, roots := m[0].Value.Uint64(), m[1].Value.Uint64()+m[2].Value.Uint64()
	percent := t.original
	if live < minHeap {
		percent = max(percent, min(maxPercent, int(100*(minHeap-live)/(live+roots))))
	}
	debug.SetGCPercent(percent)
	if !t.pending {
		t.pending = true
		// This object is unreachable, so the next collection frees it and calls tune. An object without pointers might
		// share its memory block with others.
		runtime.AddCleanup(new(*tuner), (*tuner).tune, t)
	}
}

// SetForBulkLoad makes collections rarer (debug.SetGCPercent, 400 instead of Go's 100) until the returned
// function is called. It is for bulk loads, whose live heap is always small.
func SetForBulkLoad() (restore func()) {
	if configured() {
		return func() {}
	}
	before := debug.SetGCPercent(bulkLoadPercent)
	return func() { debug.SetGCPercent(before) }
}
