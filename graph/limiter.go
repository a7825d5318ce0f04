package graph

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// maxLimited is how many keys a limiter remembers, at about 300 bytes each. It
	// forgets the one that has been quiet for longest, which then has all of its budget.
	maxLimited = 1 << 14

	// burstSeconds is for how many seconds a key may save what it does not use.
	burstSeconds = 10
)

// limiter gives each key the same budget: so many units a second, and those of
// burstSeconds, or of a minute, at once. What the units and keys are is up to its user: requests or
// RU, of viewers or of addresses. A nil limiter has no limit. It may be used by any
// number of goroutines at once.
type limiter struct {
	perSecond float64
	burst     int

	mu   sync.Mutex
	keys *simplelru.LRU[string, *rate.Limiter] // guarded by mu
}

// newLimiter returns a limiter of so many units a second, nil if there are to be none.
func newLimiter(perSecond int) *limiter {
	return newLimiterOf(float64(perSecond), perSecond*burstSeconds)
}

// newLimiterPerMinute returns a limiter of so many units a minute, which may be spent at
// once; nil if there are to be none.
func newLimiterPerMinute(units int) *limiter { return newLimiterOf(float64(units)/60, units) }

func newLimiterOf(perSecond float64, burst int) *limiter {
	if burst <= 0 {
		return nil
	}
	keys, _ := simplelru.NewLRU[string, *rate.Limiter](maxLimited, nil) // fails for no size but those below 1
	return &limiter{perSecond: perSecond, burst: burst, keys: keys}
}

// take takes n units of the key's budget, at most those that may be spent at once, if
// they are there. Otherwise it takes none and returns how long it is until they are. With an n
// of 0 it finds out whether anything is owed.
func (l *limiter) take(key string, n int) (wait time.Duration) {
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

// charge takes n units whether they are there or not, for what has been spent before
// anybody knew how much it would be. What is missing is owed: nothing can be taken
// until time has paid it back. A negative n is given back.
func (l *limiter) charge(key string, n int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	budget, now := l.budgetLocked(key), time.Now()
	if n < 0 {
		budget.ReserveN(now, n) // of more than the burst it forgets the rest when it looks again
	}
	for ; n > 0; n -= budget.Burst() { // a reservation of more than the burst is none
		budget.ReserveN(now, min(n, budget.Burst()))
	}
}

func (l *limiter) budgetLocked(key string) *rate.Limiter {
	budget, ok := l.keys.Get(key)
	if !ok {
		budget = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.keys.Add(key, budget)
	}
	return budget
}
