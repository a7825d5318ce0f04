package limit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"byline/graph/refusal"
)

// SubscriptionBytes is how much memory a subscription may hold for its document and message. For each
// further SubscriptionBytes it counts as one more subscription.
const SubscriptionBytes = 64 << 10

// After an event that took d, the slot stays occupied for pause times d, and at most maxPause, so that
// the events of one viewer take at most a quarter of a processor.
const pause, maxPause = 3, 100 * time.Millisecond

// Subscriptions limits how many subscriptions are open at a time, and how many events of a viewer
// execute at a time.
type Subscriptions struct {
	all, each int

	mu    sync.Mutex
	total int                    // guarded by mu
	byKey map[string]*subscriber // guarded by mu
}

// subscriber is a viewer, an address or a network with open subscriptions.
type subscriber struct {
	open int // subscriptions
	slot EventSlot
}

// EventSlot is held while an event of a viewer, or of the anonymous clients of an address, executes, so
// that all their subscriptions execute one event at a time. The slot then stays occupied for three
// times as long as the event took, and at most 100 ms. A nil EventSlot is no limit.
type EventSlot chan struct{}

// Acquire waits for the slot until ctx ends. The caller calls release with the time that the event
// took: 0 if it was not executed.
func (s EventSlot) Acquire(ctx context.Context) (release func(took time.Duration)) {
	if s == nil {
		return func(time.Duration) {}
	}
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return func(time.Duration) {}
	}
	return func(took time.Duration) {
		if took <= 0 {
			<-s
			return
		}
		time.AfterFunc(min(pause*took, maxPause), func() { <-s })
	}
}

// NewSubscriptions returns a limit with none open.
func NewSubscriptions(c Capacity) *Subscriptions {
	c = c.withDefaults()
	return &Subscriptions{all: c.Subscriptions, each: c.SubscriptionsEach, byKey: map[string]*subscriber{}}
}

// Admit counts a subscription that holds the given number of bytes until ctx ends. key is its viewer or
// address; "" is limited by the total only. The addresses of an IPv6 network are limited together,
// too. Admit returns the slot of key, nil for "".
func (l *Subscriptions) Admit(ctx context.Context, key string, bytes int) (EventSlot, error) {
	n, network := 1+bytes/SubscriptionBytes, Network(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total+n > l.all:
		return nil, &refusal.Error{Code: refusal.Unavailable,
			Message: "the server has too many subscriptions; try again later", RetryAfter: refusal.DefaultRetryAfter}
	case key != "" && l.open(key)+n > l.each:
		return nil, &refusal.Error{Code: refusal.Throttled,
			Message: fmt.Sprintf("too many subscriptions: at most %d at a time, and large ones count as several",
				l.each)}
	case network != "" && l.open(network)+n > PerNetwork*l.each:
		return nil, &refusal.Error{Code: refusal.Throttled,
			Message: "too many subscriptions from this network; try again later"}
	}
	l.total += n
	counted := slices.DeleteFunc([]string{key, network}, func(k string) bool { return k == "" })
	for _, k := range counted {
		if l.byKey[k] == nil {
			l.byKey[k] = &subscriber{slot: make(EventSlot, 1)}
		}
		l.byKey[k].open += n
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total -= n
		for _, k := range counted {
			if l.byKey[k].open -= n; l.byKey[k].open == 0 {
				delete(l.byKey, k)
			}
		}
	})
	if key == "" {
		return nil, nil
	}
	return l.byKey[key].slot, nil
}

// open returns how many subscriptions of a key are open. l.mu is held.
func (l *Subscriptions) open(key string) int {
	if s := l.byKey[key]; s != nil {
		return s.open
	}
	return 0
}
