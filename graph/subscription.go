package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
	"byline/store"
	"byline/store/cosmos/itemcache"
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

// streamEvents opens the stream of a subscription. Called again to execute one of its events, it
// returns that event alone.
func streamEvents[T any](ctx context.Context, open func() (*live.Stream[T], error)) (<-chan T, error) {
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

// hasStream reports whether the subscription that ctx belongs to has been opened. If not, its only
// response has the error.
func hasStream(ctx context.Context) bool {
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

// isOf reports whether ctx belongs to an operation of the kind. A refused request may have no operation.
func isOf(ctx context.Context, kind ast.Operation) bool {
	return graphql.HasOperationContext(ctx) && graphql.GetOperationContext(ctx).Operation != nil &&
		graphql.GetOperationContext(ctx).Operation.Operation == kind
}

// sharedEvents executes subscriptions. An event for many subscribers with the same selection is executed
// and encoded once, and they share the bytes, unless the response depends on the viewer or has errors,
// or the session of another subscriber requires newer data.
type sharedEvents struct {
	graphql.ExecutableSchema
	store *store.Store
	cache *eventCache
}

// Exec implements graphql.ExecutableSchema.
func (s sharedEvents) Exec(ctx context.Context) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx)
	if op.Operation.Operation != ast.Subscription {
		return s.ExecutableSchema.Exec(ctx)
	}
	refused := s.ExecutableSchema.Exec(ctx) // opens the stream
	if !hasStream(ctx) {
		return refused
	}
	receive := ctx.Value(subscriptionKey{}).(*subscription).receive
	variables, err := json.Marshal(op.Variables)
	selection := selection{op.RawQuery, op.OperationName, string(variables)}
	shares := err == nil && op.RawQuery != ""
	return func(ctx context.Context) *graphql.Response {
		event, ok := receive(ctx)
		if !ok {
			return nil
		}
		if caller := requestFrom(ctx); !shares || s.store.Renamed(caller.session) != "" { // the shared response may have the old name
			return s.execute(ctx, event)
		}
		return s.respond(ctx, eventKey{event, selection})
	}
}

// respond returns the response to an event, which it executes unless another subscriber has done so.
func (s sharedEvents) respond(ctx context.Context, k eventKey) *graphql.Response {
	caller := requestFrom(ctx)
	e, first := s.cache.get(k)
	if !first {
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil
		}
		if e.data == nil || !e.readSet.Valid(caller.session) {
			return s.execute(ctx, k.event)
		}
		return s.share(ctx, e)
	}
	defer func() { s.cache.executed(k, e) }()
	caller.personal.Store(false)
	response := s.execute(itemcache.WithReadSet(ctx, &e.readSet), k.event)
	if response != nil && response.Data != nil && len(graphql.GetErrors(ctx)) == 0 && !caller.personal.Load() && ctx.Err() == nil {
		e.data = bytes.Clone(response.Data) // without the buffer's spare capacity
		return s.share(ctx, e)
	}
	return response
}

// share returns the response to an event that subscribers share, or a refusal if there is no memory for it.
func (s sharedEvents) share(ctx context.Context, e *eventResponse) *graphql.Response {
	if err := requestFrom(ctx).share(&e.held, len(e.data)); err != nil {
		graphql.AddError(ctx, err)
		return &graphql.Response{}
	}
	return &graphql.Response{Data: e.data}
}

type eventContextKey struct{}

// execute executes an event.
func (s sharedEvents) execute(ctx context.Context, event any) *graphql.Response {
	return s.ExecutableSchema.Exec(context.WithValue(ctx, eventContextKey{}, event))(ctx)
}

// selection identifies what a subscription selects.
type selection struct{ document, operation, variables string }

// eventKey identifies responses to the same event. Streams share their events.
type eventKey struct {
	event     any // a pointer
	selection selection
}

// eventResponse is the response to an event.
type eventResponse struct {
	done    chan struct{} // closed when it has been executed
	data    []byte        // nil: it cannot be shared
	readSet itemcache.ReadSet
	held    limit.Shared
}

// Bounds of the eventCache. A response is needed only until all subscribers have received the event.
const (
	maxEventResponses     = 1 << 10
	maxEventResponseBytes = 16 << 20
)

// eventCache holds the responses to the latest events.
type eventCache struct {
	mu      sync.Mutex
	bytes   int                                      // guarded by mu; of data
	entries *simplelru.LRU[eventKey, *eventResponse] // guarded by mu
}

func newEventCache() *eventCache {
	c := &eventCache{} // NewLRU fails only for sizes below 1
	c.entries, _ = simplelru.NewLRU(maxEventResponses, func(_ eventKey, e *eventResponse) {
		select {
		case <-e.done:
			c.bytes -= len(e.data)
		default: // not counted yet
		}
	})
	return c
}

// get returns the response of a key. If first is true, the caller executes the event and calls executed.
func (c *eventCache) get(k eventKey) (e *eventResponse, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries.Get(k); ok {
		return e, false
	}
	e = &eventResponse{done: make(chan struct{})}
	c.entries.Add(k, e)
	return e, true
}

// executed ends the wait for a response, and keeps it in the cache if it can be shared.
func (c *eventCache) executed(k eventKey, e *eventResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		for c.bytes > maxEventResponseBytes {
			c.entries.RemoveOldest()
		}
	}()
	if entry, ok := c.entries.Peek(k); ok && entry == e {
		if e.data == nil {
			c.entries.Remove(k)
		} else {
			c.bytes += len(e.data)
		}
	}
	close(e.done)
}
