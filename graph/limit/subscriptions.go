package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"byline/graph/refusal"
)

// SubscriptionBytes is how much memory a subscription may hold, as long as it lasts, for its
// document and the message that it came in, before it counts as one more.
const SubscriptionBytes = 64 << 10

// After an event, those of the same viewer rest for rest times as long as it took, and mostRest at most.
const rest, mostRest = 3, 100 * time.Millisecond

// Subscriptions limits how many subscriptions are open at a time, and how many events of a viewer execute.
type Subscriptions struct {
	all, each int

	mu    sync.Mutex
	total int              // guarded by mu
	byKey map[string]int   // guarded by mu
	turns map[string]Turns // guarded by mu, by the keys in byKey
}

// Turns are what the events of a viewer, or of the anonymous clients of an address, take to execute, so that
// their subscriptions, however many, execute one event at a time, and a quarter of the time. A nil Turns does not
// limit them.
type Turns chan struct{} // one element while an event executes

// Take waits until no other event executes, and then for three times as long as the last one took. It does not
// wait for longer than ctx lasts.
func (t Turns) Take(ctx context.Context) (end func()) {
	if t == nil {
		return func() {}
	}
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	began := time.Now()
	return func() {
		time.AfterFunc(min(rest*time.Since(began), mostRest), func() { <-t })
	}
}

// NewSubscriptions returns a limit with none open.
func NewSubscriptions(c Capacity) *Subscriptions {
	c = c.withDefaults()
	return &Subscriptions{all: c.Subscriptions, each: c.SubscriptionsEach, byKey: map[string]int{}, turns: map[string]Turns{}}
}

// Admit counts a subscription of so many bytes until ctx ends. key is its viewer or address;
// "" is limited by the total only. The addresses of an IPv6 network are limited together, too. It returns the
// turns of key.
func (l *Subscriptions) Admit(ctx context.Context, key string, bytes int) (Turns, error) {
	n, network := 1+bytes/SubscriptionBytes, Network(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total+n > l.all:
		return nil, &refusal.Error{Code: refusal.Unavailable, Message: "the server has too many subscriptions; try again later", RetryAfter: refusal.DefaultRetryAfter}
	case key != "" && l.byKey[key]+n > l.each:
		return nil, &refusal.Error{Code: refusal.Throttled, Message: fmt.Sprintf("too many subscriptions: at most %d at a time, and large ones count as several", l.each)}
	case network != "" && l.byKey[network]+n > PerNetwork*l.each:
		return nil, &refusal.Error{Code: refusal.Throttled, Message: "too many subscriptions from this network; try again later"}
	}
	l.total += n
	l.byKey[key] += n
	l.byKey[network] += n
	if key != "" && l.turns[key] == nil {
		l.turns[key] = make(Turns, 1)
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total -= n
		for _, k := range []string{key, network} {
			if l.byKey[k] -= n; l.byKey[k] == 0 {
				delete(l.byKey, k)
				delete(l.turns, k)
			}
		}
	})
	return l.turns[key], nil
}
