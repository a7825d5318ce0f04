package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
	"byline/store"
	"byline/store/cosmos/itemcache"
)

// sharedEvents executes subscriptions. An event for many subscribers with the same selection is executed
// and encoded once, and they share the bytes, unless the response depends on the viewer or has errors,
// or the session of another subscriber requires newer data.
type sharedEvents struct {
	graphql.ExecutableSchema
	store *store.Store
	cache *eventCache
}

// ShareEvents returns a schema with which subscribers with the same selection share the responses to events.
func ShareEvents(schema graphql.ExecutableSchema, s *store.Store) graphql.ExecutableSchema {
	return sharedEvents{ExecutableSchema: schema, store: s, cache: newEventCache()}
}

// Exec implements graphql.ExecutableSchema.
func (s sharedEvents) Exec(ctx context.Context) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx)
	if op.Operation.Operation != ast.Subscription {
		return s.ExecutableSchema.Exec(ctx)
	}
	refused := s.ExecutableSchema.Exec(ctx) // opens the stream
	if !HasStream(ctx) {
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
		// If this session has renamed its user, a shared response may have the old username.
		if caller := RequestOf(ctx); !shares || s.store.Renamed(caller.Session) != "" {
			return s.execute(ctx, event)
		}
		return s.respond(ctx, eventKey{event, selection})
	}
}

// respond returns the response to an event, which it executes unless another subscriber has done so.
func (s sharedEvents) respond(ctx context.Context, k eventKey) *graphql.Response {
	caller := RequestOf(ctx)
	e, first := s.cache.get(k)
	if !first {
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil
		}
		if e.data == nil || !e.readSet.Valid(caller.Session) {
			return s.execute(ctx, k.event)
		}
		return s.share(ctx, e)
	}
	defer func() { s.cache.executed(k, e) }()
	caller.personal.Store(false)
	response := s.execute(itemcache.WithReadSet(ctx, &e.readSet), k.event)
	if response != nil && response.Data != nil && len(graphql.GetErrors(ctx)) == 0 && !caller.personal.Load() &&
		ctx.Err() == nil {
		e.data = bytes.Clone(response.Data) // without the buffer's spare capacity
		return s.share(ctx, e)
	}
	return response
}

// share returns the response to an event that subscribers share, or a refusal if there is no memory for it.
func (s sharedEvents) share(ctx context.Context, e *eventResponse) *graphql.Response {
	if err := RequestOf(ctx).share(&e.held, len(e.data)); err != nil {
		graphql.AddError(ctx, err)
		return &graphql.Response{}
	}
	return &graphql.Response{Data: e.data}
}

type eventContextKey struct{}

// execute executes an event.
func (s sharedEvents) execute(ctx context.Context, event any) *graphql.Response {
	began := time.Now()
	defer func() { RequestOf(ctx).executed = time.Since(began) }()
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
