package limit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"byline/graph/refusal"
)

// SubscriptionBytes is how much memory a subscription may hold for its document and message. For each
// further SubscriptionBytes it counts as one more subscription.
const SubscriptionBytes = 64 << 10

// Subscriptions limits how many subscriptions are open at a time.
type Subscriptions struct {
	all, each int

	mu    sync.Mutex
	total int            // guarded by mu
	byKey map[string]int // guarded by mu; by viewer, address or network
}

// NewSubscriptions returns a limit with none open.
func NewSubscriptions(c Capacity) *Subscriptions {
	c = c.withDefaults()
	return &Subscriptions{all: c.Subscriptions, each: c.SubscriptionsEach, byKey: map[string]int{}}
}

// Admit counts a subscription that holds the given number of bytes until ctx ends. key is its viewer or
// address; "" is limited by the total only. The addresses of an IPv6 network are limited together,
// too.
func (l *Subscriptions) Admit(ctx context.Context, key string, bytes int) error {
	n, network := 1+bytes/SubscriptionBytes, Network(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total+n > l.all:
		return &refusal.Error{Code: refusal.Unavailable, Message: "the server has too many subscriptions; try again later", RetryAfter: refusal.DefaultRetryAfter}
	case key != "" && l.byKey[key]+n > l.each:
		return &refusal.Error{Code: refusal.Throttled, Message: fmt.Sprintf("too many subscriptions: at most %d at a time, and large ones count as several", l.each)}
	case network != "" && l.byKey[network]+n > PerNetwork*l.each:
		return &refusal.Error{Code: refusal.Throttled, Message: "too many subscriptions from this network; try again later"}
	}
	l.total += n
	counted := slices.DeleteFunc([]string{key, network}, func(k string) bool { return k == "" })
	for _, k := range counted {
		l.byKey[k] += n
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total -= n
		for _, k := range counted {
			if l.byKey[k] -= n; l.byKey[k] == 0 {
				delete(l.byKey, k)
			}
		}
	})
	return nil
}
