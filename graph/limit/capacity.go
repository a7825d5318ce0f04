package limit

import (
	"math"
	"runtime"
	"runtime/debug"
)

// What responses, and large request bodies, may take of the memory of the process. docs/limits.md has the
// same numbers.
const (
	ResponsesShare   = 3  // a third
	LargeBodiesShare = 16 // a sixteenth

	assumedMemory = 1 << 30 // bytes, if the memory of the process is not limited
)

// ProcessMemory returns how many bytes the process may use, by Go's soft memory limit (GOMEMLIMIT). The command
// line sets it by that of the container.
func ProcessMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return assumedMemory
}

// Capacity limits what a server executes and holds at a time. Zero fields have their defaults.
type Capacity struct {
	Executing int // operations that execute; default 1000
	Waiting   int // operations that wait for a slot; default 1000

	Subscriptions     int // of all clients; default 20,000
	SubscriptionsEach int // of a viewer, or of the anonymous clients of an address; default 500

	LargeBodies int64 // bytes of large request bodies and messages together; default: ProcessMemory / LargeBodiesShare
	Responses   int64 // bytes of responses together; default: ProcessMemory / ResponsesShare

	// Runnable counts the goroutines that wait for a processor. Default: from runtime/metrics.
	Runnable func() int

	processors int
}

func (c Capacity) withDefaults() Capacity {
	setDefault(&c.Executing, 1000)
	setDefault(&c.Waiting, 1000)
	setDefault(&c.Subscriptions, 20_000)
	setDefault(&c.SubscriptionsEach, 500)
	setDefault(&c.LargeBodies, max(ProcessMemory()/LargeBodiesShare, MaxBody))
	setDefault(&c.Responses, ProcessMemory()/ResponsesShare)
	setDefault(&c.processors, runtime.GOMAXPROCS(0))
	if c.Runnable == nil {
		c.Runnable = countRunnable
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
