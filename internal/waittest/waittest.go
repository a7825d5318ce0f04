// Package waittest waits in tests: for what has no event to wait for, and in the time of a synctest
// bubble. It is the only place that polls.
package waittest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const (
	limit    = time.Minute
	interval = time.Millisecond
)

// Until calls check until it returns nil, and fails the test with its last error after a minute.
func Until(t testing.TB, check func() error) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

var errNotTrue = errors.New("still not true")

// For is Until for a condition.
func For(t testing.TB, condition func() bool) {
	t.Helper()
	Until(t, func() error {
		if condition() {
			return nil
		}
		return errNotTrue
	})
}

// Advance lets d pass in the synctest bubble of the caller, and waits until all that was due has been
// done. Outside a bubble it panics.
func Advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}
