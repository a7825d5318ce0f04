// Package heaptest measures how much memory caches retain.
package heaptest

import (
	"runtime"
	"testing"
)

// Bounded fails unless the value that fill returns retains between a quarter of limit, in bytes, and
// limit plus a tenth.
func Bounded(t *testing.T, limit int64, fill func() (kept any)) {
	t.Helper()
	before := used()
	kept := fill()
	took := used() - before
	t.Logf("%.1f MB", float64(took)/(1<<20))
	if took > limit*11/10 || took < limit/4 {
		t.Errorf("%.1f MB, limit %d", float64(took)/(1<<20), limit>>20)
	}
	runtime.KeepAlive(kept)
}

// used is how much of the heap is in use.
func used() int64 {
	runtime.GC()
	runtime.GC() // the second frees what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
