package server

import (
	"runtime"
	"runtime/debug"
	"testing"

	"byline/internal/collector"
)

// Who has told Go when to collect garbage is obeyed.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for name, tt := range map[string]struct {
		variable string
		later    bool
	}{"by default": {"", true}, "GOGC": {"GOGC", false}, "GOMEMLIMIT": {"GOMEMLIMIT", false}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if tt.variable != "" {
				t.Setenv(tt.variable, "100")
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			asBefore := collectLater()
			runtime.ReadMemStats(&after)
			asBefore()
			if later := after.HeapAlloc >= before.HeapAlloc+32<<20; later != tt.later {
				t.Errorf("the heap grows from %d to %d", before.HeapAlloc, after.HeapAlloc)
			}
			asBefore = collector.Rarely()
			percent := debug.SetGCPercent(100)
			asBefore()
			debug.SetGCPercent(100)
			if less := percent != 100; less != tt.later {
				t.Errorf("a load collects at %d%%", percent)
			}
		})
	}
}
