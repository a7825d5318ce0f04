package server_test

import (
	"runtime/debug"
	"testing"

	"byline/internal/collector"
	"byline/internal/servertest"
)

// TestCollector: a server and a load raise GOGC, unless GOGC or GOMEMLIMIT is set, and restore it when
// they end.
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
			for what, begin := range map[string]func() (end func()){
				"a server": func() func() {
					s := servertest.Start(t, "--data", t.TempDir(), "--no-demo")
					return func() { s.Stop() }
				},
				"a load": collector.Rarely,
			} {
				end := begin()
				if got := percent(); (got > 100) != tt.later || got < 100 {
					t.Errorf("%s collects at %d%%", what, got)
				}
				end()
				if got := percent(); got != 100 {
					t.Errorf("after %s: %d%%", what, got)
				}
			}
		})
	}
}
