package graph

import (
	"context"
	"errors"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/limit"
)

// executionTimeout is how long a query or mutation may execute.
const executionTimeout = 30 * time.Second

// responses are those of one operation of any kind, which has begun.
type responses struct {
	ctx  context.Context
	exec graphql.GraphExecutor
	kind ast.Operation
	next graphql.ResponseHandler
	*subscription
	delivery limit.Delivery // of events
}

// begin begins to execute an operation. ctx is the operation's: the caller cancels it once the
// responses have been read. A panic becomes an error, like one of a resolver: it would end the
// process, since callers are not below the recover of net/http.
func begin(ctx context.Context, exec graphql.GraphExecutor, a *limit.Admission, params *graphql.RawParams) *responses {
	err := a.Shed()
	if err == nil {
		err = a.Acquire(ctx)
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
		a.Release()
		return refused(ctx, exec, err)
	}
	all := dispatch(ctx, exec, op, a.Release)
	all.delivery.Admission = a
	return all
}

// dispatch is begin for an operation that has been parsed and validated. It calls leave when
// the operation has executed: for a subscription, when it waits for events. A panic becomes an
// error here, too.
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
		op.Extensions = nil // no longer needed, and they may be long
	}
	next, ctx := exec.DispatchOperation(context.WithValue(ctx, subscriptionKey{}, s), op)
	if kind == ast.Subscription {
		return &responses{ctx: ctx, exec: exec, kind: kind, next: next, subscription: s}
	}
	return &responses{ctx: ctx, exec: exec, kind: kind, subscription: s, next: func(ctx context.Context) *graphql.Response {
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, executionTimeout)
		defer cancel()
		return next(ctx)
	}}
}

// refused is the response of an operation that has not begun.
func refused(ctx context.Context, exec graphql.GraphExecutor, err error) *responses {
	return &responses{ctx: ctx, exec: exec, kind: ast.Query, next: graphql.OneShot(dispatchError(ctx, exec, err)), subscription: &subscription{}}
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
		if response, err := r.deliver(send); response == nil {
			end(r.ctx.Err() == nil && r.tooSlow(), nil)
			return
		} else if err != nil || response.Data == nil || r.kind != ast.Subscription {
			end(false, err)
			return
		}
	}
}

// beginEvent waits until an event may execute and be delivered, and returns functions to call once it has executed
// and once it has been delivered.
// The viewer's slot comes first: a subscription that waits for it delays no other viewer's, neither by holding
// a place in delivery nor by being the one that executes a shared event.
func (r *responses) beginEvent() (executed, delivered func()) {
	q := requestFrom(r.ctx)
	release := q.slot.Acquire(r.ctx)
	delivered = r.delivery.Begin(r.ctx)
	q.executed = 0
	return func() { release(q.executed) }, delivered
}

// deliver hands the next response to send, if there is one.
func (r *responses) deliver(send func(*graphql.Response) error) (*graphql.Response, error) {
	executed, delivered := func() {}, func() {}
	if r.kind == ast.Subscription {
		executed, delivered = r.beginEvent()
	}
	defer delivered()
	response, err := guarded(func() (*graphql.Response, error) { return r.next(r.ctx), nil })
	executed()
	if err != nil {
		response = dispatchError(r.ctx, r.exec, err)
	}
	if response == nil {
		return nil, nil
	}
	addSession(r.ctx, r.kind, response)
	return response, send(response)
}
