package graph

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(2)
		taken := 0
		for l.take("a", 1) == 0 {
			taken++
		}
		if taken != 2*burstSeconds {
			t.Errorf("%d at once", taken)
		}
		if wait := l.take("b", 2*burstSeconds); wait != 0 {
			t.Errorf("another key waits %s", wait)
		}
		wait := l.take("a", 1)
		if wait < 500*time.Millisecond || wait > 502*time.Millisecond {
			t.Errorf("one more in %s", wait)
		}
		time.Sleep(wait)
		if l.take("a", 1) != 0 || l.take("a", 1) == 0 {
			t.Error("not one more after the time it said")
		}
	})
}

func TestLimiterOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10)
		l.charge("a", 100)
		if wait := l.take("a", 0); wait != 0 {
			t.Errorf("waits %s when all is spent and nothing owed", wait)
		}
		l.charge("a", 250) // more than the burst
		wait := l.take("a", 0)
		if wait < 25*time.Second || wait > 25*time.Second+2*time.Millisecond {
			t.Errorf("250 units are paid back in %s", wait)
		}
		if wait := l.take("b", 100); wait != 0 {
			t.Errorf("another key waits %s", wait)
		}
		time.Sleep(wait)
		if wait := l.take("a", 0); wait != 0 {
			t.Errorf("still waits %s", wait)
		}
	})
}

func TestLimiterIsBounded(t *testing.T) {
	l := newLimiter(1)
	for n := range 3 * maxLimited {
		l.take(fmt.Sprint(n), 1)
	}
	if n := l.keys.Len(); n != maxLimited {
		t.Errorf("%d keys", n)
	}
	l = newLimiter(0)
	l.charge("a", 1_000_000)
	if wait := l.take("a", 1_000_000); wait != 0 {
		t.Errorf("without a limit, %s", wait)
	}
}
