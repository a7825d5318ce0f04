package cosmos

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	clockWindow    = time.Minute // of responses that an estimate rests on, and as long before them
	clockTolerance = 2 * time.Second
	clockWarnEvery = time.Hour

	// dateAge is how old the time of a Date header may be: it is in whole seconds, and servers
	// may format it once a second.
	dateAge = 2 * time.Second

	// clockAgree is how many responses, one after the other, must agree on what contradicts the
	// estimate: a single wrong Date is of a broken server or proxy.
	clockAgree = 3
)

// clock is a policy, per try, that estimates how far the account's time is from this process's
// clock. The account's time was in [Date, Date+dateAge) at some moment between request and
// response: each response bounds the offset, and the bounds of several make a narrower one. Of
// the offsets that are possible, the estimate is the one nearest to zero, so that a clock that
// is right is never corrected.
type clock struct {
	now    func() time.Time
	log    *slog.Logger
	gauge  prometheus.Gauge
	offset atomic.Int64 // nanoseconds

	mu            sync.Mutex
	current, last bounds    // guarded by mu; of this window and of the one before it, which overlap
	against       bounds    // guarded by mu; of the latest responses, if they contradict the estimate
	agree         int       // guarded by mu; how many these are
	began         time.Time // guarded by mu; the current window
	warned        time.Time // guarded by mu
}

// bounds are those of an offset. The zero value is no estimate.
type bounds struct {
	low, high time.Duration
	known     bool
}

// and returns what both allow. It reports false if that is nothing.
func (b bounds) and(o bounds) (bounds, bool) {
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
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_clock_offset_seconds",
		Help: "The account's time minus this instance's clock; 0 while they may be equal."})
	err := r.Register(gauge)
	if there := (prometheus.AlreadyRegisteredError{}); errors.As(err, &there) {
		if have, ok := there.ExistingCollector.(prometheus.Gauge); ok {
			gauge, err = have, nil
		}
	}
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

// observe takes in the Date of a response.
func (c *clock) observe(sent, received, date time.Time) {
	one := bounds{date.Sub(received), date.Add(dateAge).Sub(sent), true}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, _ := c.current.and(c.last)
	if _, possible := all.and(one); possible {
		if age := received.Sub(c.began); age < 0 || age > clockWindow {
			c.current, c.last, c.began = bounds{}, c.current, received
		}
		c.current, _ = c.current.and(one)
		c.agree = 0
	} else {
		if both, possible := c.against.and(one); possible && c.agree > 0 {
			c.against = both
			c.agree++
		} else {
			c.against, c.agree = one, 1
		}
		if c.agree < clockAgree {
			return
		}
		c.current, c.last, c.began, c.agree = c.against, bounds{}, received, 0 // a clock was set
	}
	all, _ = c.current.and(c.last)
	offset := max(all.low, min(0, all.high))
	c.offset.Store(int64(offset))
	c.gauge.Set(offset.Seconds())
	if offset.Abs() > clockTolerance && (c.warned.IsZero() || received.Sub(c.warned).Abs() >= clockWarnEvery) {
		c.warned = received
		c.log.Warn("the clock of this machine differs from the account's: new items are dated by the account's", "offset", offset)
	}
}

// ClockOffset returns the account's time minus this process's clock, as far as responses prove
// it: 0 while they may be equal.
func (a *Account) ClockOffset() time.Duration { return time.Duration(a.clock.offset.Load()) }

// Correct returns a clock that is right by the account's time if the given one reads as
// Options.Clock does.
func (a *Account) Correct(clock func() time.Time) func() time.Time {
	return func() time.Time { return clock().Add(a.ClockOffset()) }
}
