package cli

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	gcPercent   = 400  // of the live heap
	memoryShare = 0.86 // of the container's memory; the rest is for the binary and for C
)

// tuneMemory makes garbage collections rarer than Go does, unless GOGC is set, and sets Go's soft memory limit by that
// of the container, its cgroup, unless GOMEMLIMIT is set.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// an error: no cgroup
	_, _ = memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
}
