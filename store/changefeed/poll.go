package changefeed

import (
	"context"
	"sync"
	"time"

	"byline/store/internal/sleep"
)

// Signal wakes readers that wait for changes. The zero value is ready to use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu; nil without waiters
}

// Set wakes all waiters.
func (s *Signal) Set() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// Next returns a channel that the next Set closes. It is nil for a nil Signal, which is never set.
func (s *Signal) Next() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// signals are the channels of Wake and Hurry, taken before a page is read, so that no Set is missed.
type signals struct{ wake, hurry <-chan struct{} }

func (o Options) signals() signals { return signals{o.Wake.Next(), o.Hurry.Next()} }

// watchedPoll is the longest wait of a watched Tail, unless PollInterval is longer.
const watchedPoll = time.Second

// pace chooses the wait between polls of a range.
type pace struct{ idle time.Duration }

// wait waits before the next poll: Settle after a page with changes, so that the next page has more
// changes; otherwise from PollInterval, doubling up to IdleInterval. Once PollInterval has passed,
// Hurry ends the wait after changes, and Wake the wait without changes.
func (p *pace) wait(ctx context.Context, o Options, changes bool, next signals) {
	p.idle = min(max(2*p.idle, o.PollInterval), o.IdleInterval)
	d, woken := p.idle, next.wake
	if changes {
		p.idle = o.PollInterval
		d, woken = o.Settle, next.hurry
	}
	switch {
	case o.Unwatched == nil:
	case o.Unwatched():
		d, woken = max(d, o.UnwatchedInterval), next.wake
	case !changes:
		d = min(d, max(watchedPoll, o.PollInterval))
	}
	if !sleep.For(ctx, o.PollInterval) || d <= o.PollInterval {
		return
	}
	t := time.NewTimer(d - o.PollInterval)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-t.C:
	}
}
