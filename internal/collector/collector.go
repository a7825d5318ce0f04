// Package collector tunes the garbage collector, unless GOGC or GOMEMLIMIT is set.
package collector

import (
	"os"
	"runtime"
	"runtime/debug"
)

// percent is the GOGC of Rarely: garbage may grow to four times what is in use.
const percent = 400

// configured reports whether the environment sets when Go collects garbage.
func configured() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// reserve is the size of the ballast of Reserve, in bytes.
const reserve = 4 << 20

// Reserve makes collections of a small heap rarer until the returned function is called: it allocates
// 4 MB that are never touched and so take no memory of the machine. Unlike a higher GOGC, it allows
// 4 MB of garbage more, however large the heap is.
func Reserve() (restore func()) {
	if configured() {
		return func() {}
	}
	ballast := make([]byte, reserve)
	return func() { runtime.KeepAlive(ballast) }
}

// Rarely makes collections rarer (debug.SetGCPercent, 400 instead of Go's 100) until the returned
// function is called. It is for loads, whose live heap is always small.
func Rarely() (restore func()) {
	if configured() {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
