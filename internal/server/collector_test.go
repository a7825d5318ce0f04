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
	heaps := map[string]int64{} // at which a server collects
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
			s := servertest.Start(t, "--data", t.TempDir(), "--no-demo")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heaps[variable] = int64(m.NextGC)
			s.Stop()
		})
	}
	if most := max(heaps["GOGC"], heaps["GOMEMLIMIT"]); heaps[""] < most+6<<20 { // twice the reserve, about
		t.Errorf("a server collects at heaps of %v bytes", heaps)
	}
}
