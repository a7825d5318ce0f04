package transport

import (
	"context"
	"errors"
	"sync"

	"byline/store/live"
)

// subscription has the event stream of an operation. The stream is closed when the context of the
// operation ends.
type subscription struct {
	mu     sync.Mutex
	stream stream // guarded by mu; nil before it is opened, and for queries and mutations

	// receive returns the next event, or false if there are no more or ctx has ended. It is set
	// with stream.
	receive func(ctx context.Context) (event any, ok bool)
}

// stream is a *live.Stream of any type.
type stream interface {
	Await(func()) bool
	Err() error
}

type subscriptionKey struct{}

// Subscribe opens the stream of a subscription, for its resolver. Called again to execute one of its events, it
// returns that event alone.
func Subscribe[T any](ctx context.Context, open func() (*live.Stream[T], error)) (<-chan T, error) {
	if event, ok := ctx.Value(eventContextKey{}).(T); ok {
		one := make(chan T, 1)
		one <- event
		return one, nil
	}
	events, err := open()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, events.Close)
	s := ctx.Value(subscriptionKey{}).(*subscription) // no other transport executes subscriptions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = events
	s.receive = func(ctx context.Context) (any, bool) {
		select {
		case event, ok := <-events.Events():
			return event, ok
		case <-ctx.Done():
			return nil, false
		}
	}
	return events.Events(), nil
}

// HasStream reports whether the subscription that ctx belongs to has been opened. If not, its only
// response has the error.
func HasStream(ctx context.Context) bool {
	s := ctx.Value(subscriptionKey{}).(*subscription)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil
}

// await reports whether there is no event yet. If so, it calls f when there is one, or when the stream
// ends.
func (s *subscription) await(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil && s.stream.Await(f)
}

// tooSlow reports whether the client has missed events because it was too slow. It is called after
// the last event.
func (s *subscription) tooSlow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil && errors.Is(s.stream.Err(), live.ErrTooSlow)
}

const messageTooSlow = "the client is too slow and has missed events: subscribe again, then query the current state"
