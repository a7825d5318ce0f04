package testkit

import (
	"flag"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// memoryLimit is the soft memory limit of tests, in bytes: near it, garbage is collected as often as needed.
const memoryLimit = 1 << 30

// cleanUp is a goroutine of a cache with expiration, which ends some time after the cache has been collected.
const cleanUp = "github.com/maypok86/otter/v2.periodicCleanUp[...]"

// Main is the TestMain of a package. It fails if goroutines are left at the end, or if secrets have leaked
// (Exit). Tests collect garbage rarely, which saves a sixth of their CPU; benchmarks do not.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(memoryLimit)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(Exit), goleak.IgnoreTopFunction(cleanUp))
}
