package e2e

import (
	"testing"

	"byline/internal/servertest"
)

// TestServe_CollectsGarbageRarely: garbage is collected more rarely than Go does, unless GOGC is set.
func TestServe_CollectsGarbageRarely(t *testing.T) {
	for _, set := range []string{"", "100"} {
		cmd := servertest.Command("--listen", "localhost:0", "--data", t.TempDir(), "--no-demo")
		cmd.Env = append(cmd.Env, "GOGC="+set, "GOMEMLIMIT=")
		p := servertest.StartCommand(t, cmd)
		all, err := scrape(p.Root)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := total(all, "go_gc_gogc_percent", nil); !ok || (got > 100) != (set == "") {
			t.Errorf("with GOGC=%q: GOGC is %v", set, got)
		}
		p.Kill()
	}
}
