// Package collector tunes the garbage collector, unless GOGC or GOMEMLIMIT is set.
package collector

import (
	"os"
	"runtime/debug"
)

// Configured reports whether the environment sets when Go collects garbage.
func Configured() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// Rarely makes collections rarer until the returned function is called. It is for loads, which
// allocate much and keep little: their heap is small and would be collected all the time.
func Rarely() (restore func()) {
	const percent = 400
	if Configured() {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
