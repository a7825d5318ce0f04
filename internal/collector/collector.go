// Package collector tunes the garbage collector, unless GOGC or GOMEMLIMIT is set.
package collector

import (
	"os"
	"runtime/debug"
)

// percent is the GOGC of Rarely: garbage may grow to four times what is in use.
const percent = 400

// configured reports whether the environment sets when Go collects garbage.
func configured() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// Rarely makes collections rarer (debug.SetGCPercent, 400 instead of Go's 100) until the returned
// function is called. It is for processes with a small live heap and a high allocation rate, which
// would otherwise collect many times a second.
func Rarely() (restore func()) {
	if configured() {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
