package testkit

import (
	"runtime"
	"testing"
)

// BoundedHeap fails unless the value that fill returns retains between a quarter of limit, in bytes, and
// limit plus a tenth.
func BoundedHeap(t *testing.T, limit int64, fill func() (value any)) {
	t.Helper()
	before := used()
	value := fill()
	retained := used() - before
	t.Logf("%.1f MB", float64(retained)/(1<<20))
	if retained > limit*11/10 || retained < limit/4 {
		t.Errorf("%.1f MB, limit %d", float64(retained)/(1<<20), limit>>20)
	}
	runtime.KeepAlive(value)
}

// used returns the size of the heap in use, in bytes.
func used() int64 {
	runtime.GC()
	runtime.GC() // the second frees what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
