package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/waittest"
)

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRate(2)
		taken := 0
		for l.Take("a", 1) == 0 {
			taken++
		}
		if taken != 2*BurstSeconds {
			t.Errorf("%d at once", taken)
		}
		if wait := l.Take("b", 2*BurstSeconds); wait != 0 {
			t.Errorf("another key waits %s", wait)
		}
		wait := l.Take("a", 1)
		if wait < 500*time.Millisecond || wait > 502*time.Millisecond {
			t.Errorf("one more in %s", wait)
		}
		waittest.Advance(wait)
		if l.Take("a", 1) != 0 || l.Take("a", 1) == 0 {
			t.Error("not one more after the time it said")
		}
	})
}

func TestRate_DebtIsPaidByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRate(10)
		l.Charge("a", 100)
		if wait := l.Take("a", 0); wait != 0 {
			t.Errorf("waits %s when all is spent and nothing owed", wait)
		}
		l.Charge("a", 250) // more than the burst
		wait := l.Take("a", 0)
		if wait < 25*time.Second || wait > 25*time.Second+2*time.Millisecond {
			t.Errorf("250 units are paid back in %s", wait)
		}
		if wait := l.Take("b", 100); wait != 0 {
			t.Errorf("another key waits %s", wait)
		}
		waittest.Advance(wait)
		if wait := l.Take("a", 0); wait != 0 {
			t.Errorf("still waits %s", wait)
		}
	})
}

func TestRate_KeysAreBounded(t *testing.T) {
	l := NewRate(1)
	for n := range 3 * maxKeys {
		l.Take(fmt.Sprint(n), 1)
	}
	if n := l.keys.Len(); n != maxKeys {
		t.Errorf("%d keys", n)
	}
	l = NewRate(0)
	l.Charge("a", 1_000_000)
	if wait := l.Take("a", 1_000_000); wait != 0 {
		t.Errorf("without a limit, %s", wait)
	}
}

func TestRate_RefundAddsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRatePerMinute(60)
		if l.Take("a", 60) != 0 || l.Take("a", 1) == 0 {
			t.Error("not a minute's at once")
		}
		l.Charge("a", -40)
		if l.Take("a", 40) != 0 || l.Take("a", 1) == 0 {
			t.Error("not what was given back")
		}
		l.Charge("a", -1000)
		if l.Take("a", 60) != 0 || l.Take("a", 1) == 0 {
			t.Error("more than the budget was given back")
		}
		waittest.Advance(30 * time.Second)
		if l.Take("a", 30) != 0 || l.Take("a", 1) == 0 {
			t.Error("not half of it in half a minute")
		}
	})
}
