package graph

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

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

// ofSubscription reports whether ctx belongs to a subscription. A refused request may have no operation.
func ofSubscription(ctx context.Context) bool {
	return graphql.HasOperationContext(ctx) && graphql.GetOperationContext(ctx).Operation != nil &&
		graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription
}

// eventShape completes events as the generated code does not: the paths of errors begin with the
// field, and data is null if the field, which is non-null, failed.
type eventShape struct{}

var _ graphql.ResponseInterceptor = eventShape{}

func (eventShape) ExtensionName() string                   { return "EventShape" }
func (eventShape) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptResponse implements graphql.ResponseInterceptor.
func (eventShape) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if !ofSubscription(ctx) {
		return next(ctx)
	}
	op := graphql.GetOperationContext(ctx)
	field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})[0]
	response := next(graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Subscription", Field: field}))
	if response != nil && string(response.Data) == `{"`+field.Alias+`":null}` {
		response.Data = json.RawMessage("null")
	}
	return response
}
