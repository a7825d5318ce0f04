// Package heaptest measures what caches hold on to.
package heaptest

import (
	"runtime"
	"testing"
)

// Bounded fails unless what fill makes and returns takes no more of the heap than limit
// bytes and a tenth. It takes a quarter of them at least, if it was filled at all.
func Bounded(t *testing.T, limit int64, fill func() (kept any)) {
	t.Helper()
	before := used()
	kept := fill()
	took := used() - before
	t.Logf("%.1f MB", float64(took)/(1<<20))
	if took > limit*11/10 || took < limit/4 {
		t.Errorf("%.1f MB, where %d may be", float64(took)/(1<<20), limit>>20)
	}
	runtime.KeepAlive(kept)
}

// used is how much of the heap is in use.
func used() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
