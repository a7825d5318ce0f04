package limit

import "runtime"

// Capacity limits what a server executes and holds at a time. Zero fields have their defaults.
type Capacity struct {
	Executing int // operations that execute; default 1000
	Waiting   int // operations that wait for a slot; default 1000

	Subscriptions     int // of all clients; default 20,000
	SubscriptionsEach int // of a viewer, or of the anonymous clients of an address; default 500

	LargeBodies int64 // bytes of large request bodies and messages together; default 64 MiB
	Responses   int64 // bytes of responses together; default 256 MiB

	// Runnable counts the goroutines that wait for a processor. Default: from runtime/metrics.
	Runnable func() int

	processors int
}

func (c Capacity) withDefaults() Capacity {
	setDefault(&c.Executing, 1000)
	setDefault(&c.Waiting, 1000)
	setDefault(&c.Subscriptions, 20_000)
	setDefault(&c.SubscriptionsEach, 500)
	setDefault(&c.LargeBodies, 64<<20)
	setDefault(&c.Responses, 256<<20)
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
