package collector_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"byline/internal/collector"
	"byline/internal/waittest"
)

// next returns GOGC, and the heap in bytes at which the next collection starts.
func next() (percent, goal uint64) {
	m := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64(), m[1].Value.Uint64()
}

// TestCollector: servers and bulk loads have a higher GOGC until they end, unless GOGC or GOMEMLIMIT is set.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, variable := range []string{"", "GOGC", "GOMEMLIMIT"} {
		t.Run("with "+variable, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if variable != "" {
				t.Setenv(variable, "100")
			}
			check := func(of string, runs bool) {
				t.Helper()
				runtime.GC() // collects the garbage of the previous test
				if got, _ := next(); (got > 100) != (runs && variable == "") {
					t.Errorf("%s: GOGC is %d", of, got)
				}
			}
			end := collector.SetForBulkLoad()
			check("a load", true)
			end()
			check("after a load", false)
			first, second := collector.KeepMinHeap(), collector.KeepMinHeap()
			check("two servers", true)
			first()
			check("a server", true)
			second()
			check("after servers", false)
		})
	}
}

// TestKeepMinHeap: a small heap may grow to 20 MB, and a larger one to twice the live heap, as that changes.
func TestKeepMinHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer collector.KeepMinHeap()()
	const mb = 1 << 20
	for _, used := range []int{0, 8, 40, 8, 0} {
		memory := make([]byte, used*mb)
		waittest.Until(t, func() error {
			runtime.GC()
			percent, goal := next()
			if used == 40 && (percent != 100 || goal < 80*mb) || used < 40 && (percent == 100 || goal < 19*mb || goal > 21*mb) {
				return fmt.Errorf("with %d MB in use, a GOGC of %d and a collection at %d bytes", used, percent, goal)
			}
			return nil
		})
		runtime.KeepAlive(memory)
	}
}
