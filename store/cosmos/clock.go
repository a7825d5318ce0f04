package cosmos

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/internal/metric"
)

const (
	clockWindow    = time.Minute // an estimate uses the responses of the current window and the one before
	clockTolerance = 2 * time.Second
	clockWarnEvery = time.Hour

	// dateAge is the largest age of the time in a Date header: it is in whole seconds, and servers may
	// format it once a second.
	dateAge = 2 * time.Second

	// clockAgree is how many consecutive responses must contradict the estimate consistently before it
	// is replaced: a single wrong Date comes from a broken server or proxy.
	clockAgree = 3
)

// clock is a policy, per try, that estimates the offset of the account's time from this process's
// clock. The account's time was in [Date, Date+dateAge) at some moment between request and response: so
// each response bounds the offset, and several responses narrow the bounds. The estimate is the
// possible offset nearest to zero, so that a correct clock is never corrected.
type clock struct {
	now    func() time.Time
	log    *slog.Logger
	gauge  prometheus.Gauge
	offset atomic.Int64 // nanoseconds

	mu            sync.Mutex
	current, last bounds    // guarded by mu; of this window and the one before; they intersect
	contradicting bounds    // guarded by mu; of the latest responses, if they contradict the estimate
	agree         int       // guarded by mu; how many these are
	began         time.Time // guarded by mu; the current window
	warned        time.Time // guarded by mu
}

// bounds are the bounds of an offset. The zero value is unknown.
type bounds struct {
	low, high time.Duration
	known     bool
}

// intersect returns the offsets within both bounds. It reports false if there are none.
func (b bounds) intersect(o bounds) (bounds, bool) {
	switch {
	case !b.known:
		return o, true
	case !o.known:
		return b, true
	}
	both := bounds{max(b.low, o.low), min(b.high, o.high), true}
	return both, both.low <= both.high
}

func newClock(now func() time.Time, log *slog.Logger, r prometheus.Registerer) (*clock, error) {
	gauge, err := metric.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_clock_offset_seconds",
		Help: "The account's time minus this instance's clock; 0 while they may be equal."}))
	return &clock{now: now, log: log, gauge: gauge}, err
}

// Do implements policy.Policy.
func (c *clock) Do(req *policy.Request) (*http.Response, error) {
	sent := c.now()
	resp, err := req.Next()
	if err != nil || resp.Header["Date"] == nil {
		return resp, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.observe(sent, c.now(), date)
	}
	return resp, nil
}

// observe updates the estimate with the Date of a response.
func (c *clock) observe(sent, received, date time.Time) {
	one := bounds{date.Sub(received), date.Add(dateAge).Sub(sent), true}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, _ := c.current.intersect(c.last)
	if _, possible := all.intersect(one); possible {
		if age := received.Sub(c.began); age < 0 || age > clockWindow {
			c.current, c.last, c.began = bounds{}, c.current, received
		}
		c.current, _ = c.current.intersect(one)
		c.agree = 0
	} else {
		if both, possible := c.contradicting.intersect(one); possible && c.agree > 0 {
			c.contradicting = both
			c.agree++
		} else {
			c.contradicting, c.agree = one, 1
		}
		if c.agree < clockAgree {
			return
		}
		c.current, c.last, c.began, c.agree = c.contradicting, bounds{}, received, 0 // a clock was set
	}
	all, _ = c.current.intersect(c.last)
	offset := max(all.low, min(0, all.high))
	c.offset.Store(int64(offset))
	c.gauge.Set(offset.Seconds())
	if offset.Abs() > clockTolerance && (c.warned.IsZero() || received.Sub(c.warned).Abs() >= clockWarnEvery) {
		c.warned = received
		c.log.Warn("the clock of this machine differs from the account's: new items are dated by the account's",
			"offset", offset)
	}
}

// ClockOffset returns the account's time minus this process's clock, as estimated from responses: 0
// while they may be equal.
func (a *Account) ClockOffset() time.Duration { return time.Duration(a.clock.offset.Load()) }

// Correct returns a clock that adds ClockOffset to the given one, which must agree with Options.Clock.
func (a *Account) Correct(clock func() time.Time) func() time.Time {
	return func() time.Time { return clock().Add(a.ClockOffset()) }
}
