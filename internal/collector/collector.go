// Package collector tunes the garbage collector, unless GOGC or GOMEMLIMIT is set.
package collector

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// percent is the GOGC of Rarely: garbage may grow to four times what is in use.
const percent = 400

// configured reports whether the environment sets when Go collects garbage.
func configured() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// minHeap is the heap of MinHeap, in bytes, and maxPercent the GOGC at which Go never collects a smaller one, as it
// lets a heap grow to 4 MB if GOGC is 100.
const (
	minHeap    = 20 << 20
	maxPercent = 100 * minHeap / (4 << 20)
)

// MinHeap makes collections of a small heap rarer until the returned function is called: Go collects when
// the heap has 20 MB, or twice what is in use if that is more. Servers of one process share it.
func MinHeap() (restore func()) {
	if configured() {
		return func() {}
	}
	shared.begin()
	return shared.end
}

var shared tuner

// tuner sets GOGC after each collection, by what is still in use.
type tuner struct {
	mu      sync.Mutex
	servers int
	before  int // GOGC without servers
	percent int // GOGC now
	waits   bool
}

func (t *tuner) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.servers++; t.servers == 1 {
		t.percent = maxPercent
		t.before = debug.SetGCPercent(t.percent)
		t.await()
	}
}

func (t *tuner) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.servers--; t.servers == 0 {
		debug.SetGCPercent(t.before)
	}
}

// await calls tune after the next collection, which finds an object that nothing refers to.
func (t *tuner) await() {
	if t.waits {
		return
	}
	t.waits = true
	runtime.AddCleanup(&struct{ *tuner }{}, (*tuner).tune, t)
}

func (t *tuner) tune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = false
	if t.servers == 0 {
		return
	}
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(m)
	live, roots := m[0].Value.Uint64(), m[1].Value.Uint64()+m[2].Value.Uint64()
	percent := 100
	if live < minHeap {
		percent = max(percent, min(maxPercent, int(100*(minHeap-live)/(live+roots))))
	}
	if percent != t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	t.await()
}

// Rarely makes collections rarer (debug.SetGCPercent, 400 instead of Go's 100) until the returned
// function is called. It is for loads, whose live heap is always small.
func Rarely() (restore func()) {
	if configured() {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
