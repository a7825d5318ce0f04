package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRate(2)
		taken := 0
		for l.Take("a", 1) == 0 {
			taken++
		}
		if taken != 2*BurstSeconds {
			t.Errorf("burst of %d units, want %d", taken, 2*BurstSeconds)
		}
		if wait := l.Take("b", 2*BurstSeconds); wait != 0 {
			t.Errorf("another key waits %s, want 0", wait)
		}
		wait := l.Take("a", 1)
		if wait < 500*time.Millisecond || wait > 502*time.Millisecond {
			t.Errorf("wait of %s for one more unit, want about 500ms", wait)
		}
		testkit.Advance(wait)
		if l.Take("a", 1) != 0 || l.Take("a", 1) == 0 {
			t.Error("after the returned wait, want exactly one unit")
		}
	})
}

func TestRate_DebtIsRefilledOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRate(10)
		l.Charge("a", 100)
		if wait := l.Take("a", 0); wait != 0 {
			t.Errorf("empty bucket without debt: wait %s, want 0", wait)
		}
		l.Charge("a", 250) // more than the burst
		wait := l.Take("a", 0)
		if wait < 25*time.Second || wait > 25*time.Second+2*time.Millisecond {
			t.Errorf("debt of 250 units: wait %s, want about 25s", wait)
		}
		if wait := l.Take("b", 100); wait != 0 {
			t.Errorf("another key waits %s, want 0", wait)
		}
		testkit.Advance(wait)
		if wait := l.Take("a", 0); wait != 0 {
			t.Errorf("after the returned wait: wait %s, want 0", wait)
		}
	})
}

func TestRate_KeysAreBounded(t *testing.T) {
	l := NewRate(1)
	for n := range 3 * maxKeys {
		l.Take(fmt.Sprint(n), 1)
	}
	if n := l.keys.Len(); n != maxKeys {
		t.Errorf("%d keys, want %d", n, maxKeys)
	}
	l = NewRate(0)
	l.Charge("a", 1_000_000)
	if wait := l.Take("a", 1_000_000); wait != 0 {
		t.Errorf("no limit: wait %s, want 0", wait)
	}
}

func TestRate_RefundAddsUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRatePerMinute(60)
		if l.Take("a", 60) != 0 || l.Take("a", 1) == 0 {
			t.Error("initial burst is not 60 units")
		}
		l.Charge("a", -40)
		if l.Take("a", 40) != 0 || l.Take("a", 1) == 0 {
			t.Error("a refund of 40 units did not add 40 units")
		}
		l.Charge("a", -1000)
		if l.Take("a", 60) != 0 || l.Take("a", 1) == 0 {
			t.Error("a refund of 1000 units did not fill the bucket to 60")
		}
		testkit.Advance(30 * time.Second)
		if l.Take("a", 30) != 0 || l.Take("a", 1) == 0 {
			t.Error("half a minute did not add 30 units")
		}
	})
}
