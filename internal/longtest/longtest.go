// Package longtest tells tests that search at random how long they may take.
package longtest

import "os"

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
