package graph

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/store"
)

// subscription is one operation of a transport that streams. Its context ends the
// stream of events behind it.
type subscription struct {
	mu     sync.Mutex
	stream stream // guarded by mu; nil for what has none
}

// stream is a *store.Stream of whatever.
type stream interface {
	Await(func()) bool
	Err() error
}

type subscriptionKey struct{}

// follow hands the events of a stream to the executor.
func follow[T any](ctx context.Context, events *store.Stream[T], err error) (<-chan T, error) {
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, events.Close)
	s := ctx.Value(subscriptionKey{}).(*subscription) // no other transport executes subscriptions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = events
	return events.Events(), nil
}

// hasStream reports whether the subscription that ctx is of has been opened. If not, it has
// one response, which says why.
func hasStream(ctx context.Context) bool {
	s := ctx.Value(subscriptionKey{}).(*subscription)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil
}

// await reports whether there is no event yet: then f is called when there is, or when
// there will be none.
func (s *subscription) await(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil && s.stream.Await(f)
}

// tooSlow reports whether the client lost events because it did not read them. It is
// to be called once there are no more events.
func (s *subscription) tooSlow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil && errors.Is(s.stream.Err(), store.ErrTooSlow)
}

const messageTooSlow = "the client is too slow and has missed events: subscribe again, then query the current state"

const messageOneStream = "a subscription must select exactly one field, and not an introspection field"

// oneStream refuses subscriptions whose only field @skip or @include leaves out. What has
// several is not valid: see oneStreamRule.
type oneStream struct{}

var _ interface {
	graphql.OperationContextMutator
	graphql.ResponseInterceptor
} = oneStream{}

func (oneStream) ExtensionName() string                   { return "OneStream" }
func (oneStream) Validate(graphql.ExecutableSchema) error { return nil }

func (oneStream) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation == ast.Subscription && len(streamFields(op)) != 1 {
		return gqlerror.Wrap(&refusal{code: validationFailed, message: messageOneStream})
	}
	return nil
}

func streamFields(op *graphql.OperationContext) []graphql.CollectedField {
	return graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
}

// InterceptResponse makes up for what the generated code leaves out of events: the
// paths of errors begin with the field, and data is null if the field, which is never
// null, could not be made.
func (oneStream) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if !graphql.HasOperationContext(ctx) || graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription {
		return next(ctx) // it has been refused, or is of another kind
	}
	field := streamFields(graphql.GetOperationContext(ctx))[0]
	response := next(graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Subscription", Field: field}))
	if response != nil && string(response.Data) == `{"`+field.Alias+`":null}` {
		response.Data = json.RawMessage("null")
	}
	return response
}

// executionTimeout is how long a query or mutation may execute; a variable so that a
// test need not wait for it.
var executionTimeout = 30 * time.Second

// responses are those of one operation of any kind, which has begun.
type responses struct {
	ctx  context.Context
	exec graphql.GraphExecutor
	kind ast.Operation
	next graphql.ResponseHandler
	*subscription
}

// begin begins to execute an operation. ctx is the operation's: whoever made it cancels
// it once the responses have been read. A panic is answered like one of a resolver: no
// caller is below the server's own recover, and it would end the process.
func begin(ctx context.Context, exec graphql.GraphExecutor, a *admission, params *graphql.RawParams) *responses {
	err := a.shed()
	if err == nil {
		err = a.enter(ctx)
	}
	if err != nil {
		return refused(ctx, exec, err)
	}
	op, err := guarded(func() (op *graphql.OperationContext, err error) {
		op, errs := prepareOperation(ctx, exec, params)
		if errs != nil {
			err = errs
		}
		return op, err
	})
	if err != nil {
		a.leave()
		return refused(ctx, exec, err)
	}
	return dispatch(ctx, exec, op, a.leave)
}

// dispatch is begin for an operation that has been read and found good. It calls leave
// when the operation has executed: a subscription, when it waits for events. A panic is
// answered here, too.
func dispatch(ctx context.Context, exec graphql.GraphExecutor, op *graphql.OperationContext, leave func()) (all *responses) {
	s, kind := &subscription{}, op.Operation.Operation
	defer func() {
		if v := recover(); v != nil {
			leave()
			all = refused(ctx, exec, caught(v))
		} else if kind == ast.Subscription { // there is no more to execute
			leave()
		}
	}()
	if kind == ast.Subscription {
		op.Extensions = nil // nobody looks at them any more, and they may be long
	}
	next, ctx := exec.DispatchOperation(context.WithValue(ctx, subscriptionKey{}, s), op)
	if kind == ast.Subscription {
		return &responses{ctx, exec, kind, next, s}
	}
	return &responses{ctx, exec, kind, func(ctx context.Context) *graphql.Response {
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, executionTimeout)
		defer cancel()
		return next(ctx)
	}, s}
}

// refused is the response of an operation that has not begun.
func refused(ctx context.Context, exec graphql.GraphExecutor, err error) *responses {
	return &responses{ctx, exec, ast.Query, graphql.OneShot(dispatchError(ctx, exec, err)), &subscription{}}
}

// dispatchError is the response that says what went wrong before execution.
func dispatchError(ctx context.Context, exec graphql.GraphExecutor, err error) *graphql.Response {
	var list gqlerror.List
	if !errors.As(err, &list) {
		list = gqlerror.List{gqlerror.Wrap(err)}
	}
	return exec.DispatchError(ctx, list)
}

// each hands the responses to send, one after the other, until they end, the context
// does, or send fails; then it calls end. A response that has no data at all refuses
// the operation: it is the only one. slow says that the client has missed events. While
// there are none it returns, and goes on in another goroutine: thousands may wait.
func (r *responses) each(send func(*graphql.Response) error, end func(slow bool, err error)) {
	for !r.await(func() { r.each(send, end) }) {
		response, err := guarded(func() (*graphql.Response, error) { return r.next(r.ctx), nil })
		if err != nil {
			response = dispatchError(r.ctx, r.exec, err)
		}
		if response == nil {
			end(r.ctx.Err() == nil && r.tooSlow(), nil)
			return
		}
		tellSession(r.ctx, r.kind, response)
		if err := send(response); err != nil || response.Data == nil || r.kind != ast.Subscription {
			end(false, err)
			return
		}
	}
}
