package server_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"byline/internal/collector"
	"byline/internal/servertest"
	"byline/internal/waittest"
)

// TestCollector: servers keep a heap of 20 MB until the last one ends, and a load has a higher GOGC, unless GOGC or
// GOMEMLIMIT is set.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	const minHeap = 20 << 20
	for _, variable := range []string{"", "GOGC", "GOMEMLIMIT"} {
		t.Run("with "+variable, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if variable != "" {
				t.Setenv(variable, "100")
			}
			end := collector.Rarely()
			if got := percent(); (got > 100) != (variable == "") || got < 100 {
				t.Errorf("a load collects at %d%%", got)
			}
			end()
			if got := percent(); got != 100 {
				t.Errorf("after a load: %d%%", got)
			}
			var heap runtime.MemStats
			servers := []*servertest.Instance{servertest.Start(t, "--data", t.TempDir(), "--no-demo"), servertest.Start(t, "--data", t.TempDir(), "--no-demo")}
			for _, s := range servers {
				waittest.Until(t, func() error {
					runtime.GC()
					if runtime.ReadMemStats(&heap); heap.NextGC > minHeap*9/10 != (variable == "") || heap.NextGC > minHeap*11/10 {
						return fmt.Errorf("a server collects at a heap of %d bytes", heap.NextGC)
					}
					return nil
				})
				s.Stop()
			}
			if got := percent(); got != 100 {
				t.Errorf("after servers: %d%%", got)
			}
			used := make([]byte, minHeap)
			defer collector.MinHeap()()
			waittest.Until(t, func() error {
				runtime.GC()
				if runtime.ReadMemStats(&heap); percent() != 100 || heap.NextGC < 2*minHeap {
					return fmt.Errorf("with %d bytes in use, a server collects at %d", len(used), heap.NextGC)
				}
				return nil
			})
		})
	}
}
