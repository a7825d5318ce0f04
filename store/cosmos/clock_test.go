package cosmos

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestClock_Estimate observes responses of an account whose time is known with a clock that is off.
func TestClock_Estimate(t *testing.T) {
	began := time.Date(2026, 3, 1, 0, 0, 0, 400e6, time.UTC)
	for name, tt := range map[string]struct {
		off           time.Duration // of this process's clock
		takes         time.Duration // a request, each way
		stale         time.Duration // how old the server's Date is, besides its rounding
		low, high     time.Duration // of the estimate
		warnings      int
		every         time.Duration // between responses
		responses     int
		then          time.Duration // then the clock is set, and is off by this; 0: it is not set
		low2, high2   time.Duration // of the estimate after that
		otherWarnings int           // after that
	}{
		"right": {every: 170 * time.Millisecond, responses: 100},
		"right, with an old Date": {stale: 900 * time.Millisecond, every: 170 * time.Millisecond,
			responses: 100},
		"right, on a slow network": {takes: 3 * time.Second, every: 170 * time.Millisecond, responses: 100},
		"off by less than responses prove": {off: 900 * time.Millisecond, every: 170 * time.Millisecond,
			responses: 100},
		"ahead": {off: 10 * time.Minute, every: 170 * time.Millisecond, responses: 100,
			low: -10 * time.Minute, high: -10*time.Minute + 1200*time.Millisecond, warnings: 1},
		"behind": {off: -10 * time.Minute, every: 170 * time.Millisecond, responses: 100,
			low: 10*time.Minute - 200*time.Millisecond, high: 10 * time.Minute, warnings: 1},
		"behind, one response": {off: -10 * time.Minute, responses: 1, low: 10*time.Minute - time.Second,
			high: 10 * time.Minute, warnings: 1},
		"a little behind": {off: -1500 * time.Millisecond, every: 170 * time.Millisecond, responses: 100,
			low: 1300 * time.Millisecond, high: 1500 * time.Millisecond},
		"off for hours": {off: -time.Minute, every: 61 * time.Second, responses: 170, low: time.Minute - time.Second,
			high: time.Minute, warnings: 3},
		"corrected later": {off: -time.Minute, every: 170 * time.Millisecond, responses: 100,
			low: time.Minute - time.Second, high: time.Minute, warnings: 1, then: 1},
		"off later": {every: 170 * time.Millisecond, responses: 100, then: -5 * time.Second, low2: 4 * time.Second,
			high2: 5 * time.Second, otherWarnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var logs bytes.Buffer
			c, err := newClock(nil, slog.New(slog.NewTextHandler(&logs, nil)), prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			now := began
			respond := func(off, low, high time.Duration) {
				t.Helper()
				for i := range tt.responses {
					sent := now.Add(off)
					date := now.Add(tt.takes - tt.stale).Truncate(time.Second)
					c.observe(sent, sent.Add(2*tt.takes), date)
					now = now.Add(tt.every)
					if got := time.Duration(c.offset.Load()); got.Abs() > off.Abs() && i >= clockAgree-1 {
						t.Fatalf("response %d: corrected by %v, while the clock is off by %v", i, got, off)
					}
				}
				if got := time.Duration(c.offset.Load()); got < low || got > high {
					t.Errorf("got offset %v, want %v to %v", got, low, high)
				}
				if got := testutil.ToFloat64(c.gauge); got != time.Duration(c.offset.Load()).Seconds() {
					t.Errorf("got metric %v, want the offset", got)
				}
			}
			respond(tt.off, tt.low, tt.high)
			if n := strings.Count(logs.String(), "level=WARN"); n != tt.warnings {
				t.Errorf("got %d warnings, want %d:\n%s", n, tt.warnings, &logs)
			}
			if tt.then == 0 {
				return
			}
			logs.Reset()
			respond(tt.then, tt.low2, tt.high2)
			if n := strings.Count(logs.String(), "level=WARN"); n != tt.otherWarnings {
				t.Errorf("got %d warnings after the clock was set, want %d:\n%s", n, tt.otherWarnings, &logs)
			}
		})
	}
}

// TestClock_OneWrongDate: a Date that contradicts all others has no effect.
func TestClock_OneWrongDate(t *testing.T) {
	c, err := newClock(nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 40 {
		date := now
		switch i % 10 {
		case 7:
			date = now.Add(10 * time.Minute)
		case 8:
			date = now.Add(-time.Hour)
		}
		c.observe(now, now, date)
		if got := time.Duration(c.offset.Load()); got != 0 {
			t.Fatalf("response %d: the offset of a right clock is %v", i, got)
		}
		now = now.Add(11 * time.Second)
	}
}

// TestClock_SharedRegistry: accounts that share a registry share the metric.
func TestClock_SharedRegistry(t *testing.T) {
	r := prometheus.NewRegistry()
	for range 2 {
		if _, err := newClock(time.Now, slog.New(slog.DiscardHandler), r); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := testutil.GatherAndCount(r, "byline_clock_offset_seconds"); n != 1 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}
