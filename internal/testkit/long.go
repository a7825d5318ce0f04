package testkit

import (
	"os"
	"testing"
)

// Variable is the environment variable of the long forms: BYLINE_TEST_LONG=1 go test ./...
const Variable = "BYLINE_TEST_LONG"

// Long reports whether tests run in their long forms.
func Long() bool { return os.Getenv(Variable) == "1" }

// Pick returns long if the long forms are enabled, and short otherwise.
func Pick[T any](short, long T) T {
	if Long() {
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
