package testkit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Until waits shortest between checks, and later a share of the time that has passed: in a bubble,
// where waiting is free, checks are what takes time.
const (
	shortest = time.Millisecond
	share    = 16
)

// The limits of Until. Both are less than the 30 s after which cached items expire, so that a test
// sees whether they were invalidated. In a bubble only what a test waits for takes time.
const (
	limit         = 25 * time.Second
	limitInBubble = 5 * time.Second
)

// Until calls check until it returns nil. It fails the test with the last error after 25 s, or after
// 5 s of a synctest bubble.
func Until(t testing.TB, check func() error) {
	t.Helper()
	limit := limit
	if inBubble() {
		limit = limitInBubble
	}
	UntilWithin(t, limit, check)
}

// UntilWithin is Until with another limit, for what takes long beside other tests.
func UntilWithin(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(max(shortest, time.Since(began)/share)):
		case <-late.C:
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

func inBubble() bool { return time.Now().Year() == 2000 } // where the time of bubbles begins

var errNotTrue = errors.New("still not true")

// WaitFor is Until for a condition.
func WaitFor(t testing.TB, condition func() bool) {
	t.Helper()
	Until(t, func() error {
		if condition() {
			return nil
		}
		return errNotTrue
	})
}

// Receive returns the next value of a channel; the zero value if it is closed. It fails the test after 25 s, or after a
// minute of a synctest bubble. Only the goroutine of the test may call it.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	limit := limit
	if inBubble() {
		limit = time.Minute
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatalf("nothing received in %v", limit)
		panic("not reached")
	}
}

// Advance lets d pass in the synctest bubble of the caller, and waits until all that was due has been
// done. Outside a bubble it panics.
func Advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}
