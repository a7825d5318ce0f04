package server_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"byline/internal/collector"
	"byline/internal/servertest"
)

// TestCollector: a server collects at a larger heap and a load at a higher GOGC, unless GOGC or
// GOMEMLIMIT is set.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
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
			end := collector.Rarely()
			if got := percent(); (got > 100) != tt.later || got < 100 {
				t.Errorf("a load collects at %d%%", got)
			}
			end()
			if got := percent(); got != 100 {
				t.Errorf("after a load: %d%%", got)
			}
			s := servertest.Start(t, "--data", t.TempDir(), "--no-demo")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if later := m.NextGC >= 128<<20; later != tt.later {
				t.Errorf("a server collects at %d MB", m.NextGC>>20)
			}
			s.Stop()
		})
	}
}
