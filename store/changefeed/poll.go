package changefeed

import (
	"context"
	"sync"
	"time"
)

// Signal wakes readers that wait for changes. The zero value is ready to use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu; nil while nobody waits
}

// Set wakes all who wait.
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

// signals are those of Options, taken before a page is read, so that none is missed.
type signals struct{ wake, hurry <-chan struct{} }

func (o Options) signals() signals { return signals{o.Wake.Next(), o.Hurry.Next()} }

// onDemandPoll is the interval of polls while nobody waits for changes.
const onDemandPoll = 30 * time.Second

// pace is how long a range waits between polls.
type pace struct{ idle time.Duration }

// wait waits before the next poll: Settle after a page with changes, so that the next one has more of
// them. After pages without changes the wait doubles, from PollInterval up to IdleInterval. Once
// PollInterval has passed, Hurry ends the one and Wake the other.
func (p *pace) wait(ctx context.Context, o Options, changes bool, next signals) {
	p.idle = min(max(2*p.idle, o.PollInterval), o.IdleInterval)
	d, woken := p.idle, next.wake
	if changes {
		p.idle = o.PollInterval
		d, woken = o.Settle, next.hurry
	}
	if o.OnDemand != nil && o.OnDemand() {
		d, woken = max(d, onDemandPoll), next.wake
	}
	if !sleep(ctx, o.PollInterval) || d <= o.PollInterval {
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
