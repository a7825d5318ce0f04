// Package longtest tells tests how long they may take: more than usual with BYLINE_TEST_LONG=1,
// less with go test -short.
package longtest

import (
	"os"
	"testing"
)

// Variable is the environment variable of the long forms: BYLINE_TEST_LONG=1 go test ./...
const Variable = "BYLINE_TEST_LONG"

// Enabled reports whether tests run in their long forms.
func Enabled() bool { return os.Getenv(Variable) == "1" }

// Pick returns long if the long forms are enabled, and short otherwise.
func Pick[T any](short, long T) T {
	if Enabled() {
		return long
	}
	return short
}

// Heavy skips a test under -short that is too slow with the race detector.
func Heavy(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("too slow with the race detector (-short)")
	}
}
