package limit

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// maxKeys is how many keys a Rate tracks, at about 300 bytes each. The least recently
	// used one is evicted, and then has its full budget again.
	maxKeys = 1 << 14

	// BurstSeconds is the burst of a Rate, in seconds of its rate.
	BurstSeconds = 10
)

// Rate is a token bucket for each key: a number of units per second, with a burst of BurstSeconds
// or of a minute. Units and keys are up to the caller: requests or RU, of viewers or of
// addresses. A nil Rate has no limit. It is safe for concurrent use.
type Rate struct {
	perSecond float64
	burst     int

	mu   sync.Mutex
	keys *simplelru.LRU[string, *rate.Limiter] // guarded by mu
}

// NewRate returns a rate in units per second; nil, which is no limit, for 0.
func NewRate(perSecond int) *Rate {
	return newRate(float64(perSecond), perSecond*BurstSeconds)
}

// NewRatePerMinute returns a rate in units per minute, which may be spent at once; nil for 0.
func NewRatePerMinute(units int) *Rate { return newRate(float64(units)/60, units) }

func newRate(perSecond float64, burst int) *Rate {
	if burst <= 0 {
		return nil
	}
	keys, _ := simplelru.NewLRU[string, *rate.Limiter](maxKeys, nil) // fails only for sizes below 1
	return &Rate{perSecond: perSecond, burst: burst, keys: keys}
}

// Burst returns how many units a key may spend at once.
func (l *Rate) Burst() int { return l.burst }

// Take takes n units of the key's budget. If fewer are left it takes none and returns how long
// to wait. Take(key, 0) reports whether the key is in debt.
func (l *Rate) Take(key string, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	budget, now := l.budgetLocked(key), time.Now()
	if missing := float64(n) - budget.TokensAt(now); missing > 0 {
		return time.Duration(missing/l.perSecond*float64(time.Second)).Round(time.Millisecond) + time.Millisecond
	}
	budget.AllowN(now, n)
	return 0
}

// Charge takes n units, which may put the key into debt: for a cost that is known only afterwards.
// Nothing can be taken until the debt has been refilled. A negative n is a refund.
func (l *Rate) Charge(key string, n int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	budget, now := l.budgetLocked(key), time.Now()
	if n < 0 {
		budget.ReserveN(now, n) // a refund beyond the burst is dropped at the next call
	}
	for ; n > 0; n -= budget.Burst() { // a reservation beyond the burst is refused
		budget.ReserveN(now, min(n, budget.Burst()))
	}
}

func (l *Rate) budgetLocked(key string) *rate.Limiter {
	budget, ok := l.keys.Get(key)
	if !ok {
		budget = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.keys.Add(key, budget)
	}
	return budget
}
