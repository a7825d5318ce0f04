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

// responses are the responses of an operation that has begun.
type responses struct {
	ctx  context.Context
	exec graphql.GraphExecutor
	kind ast.Operation
	next graphql.ResponseHandler
	*subscription
	delivery limit.Delivery // of events
}

// begin begins an operation. The caller cancels ctx once it has read the responses. A panic becomes
// an error response: callers run outside the recover of net/http, so it would end the process.
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

// dispatch is begin for an operation that has been parsed and validated. It calls releaseSlot once
// a query or mutation has executed, or a subscription waits for events.
func dispatch(ctx context.Context, exec graphql.GraphExecutor, op *graphql.OperationContext, releaseSlot func()) (all *responses) {
	s, kind := &subscription{}, op.Operation.Operation
	defer func() {
		if v := recover(); v != nil {
			releaseSlot()
			all = refused(ctx, exec, caught(v))
		} else if kind == ast.Subscription { // it waits for events now
			releaseSlot()
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
		defer releaseSlot()
		ctx, cancel := context.WithTimeout(ctx, executionTimeout)
		defer cancel()
		return next(ctx)
	}}
}

// refused returns the only response of an operation that is refused.
func refused(ctx context.Context, exec graphql.GraphExecutor, err error) *responses {
	return &responses{ctx: ctx, exec: exec, kind: ast.Query, next: graphql.OneShot(dispatchError(ctx, exec, err)), subscription: &subscription{}}
}

// dispatchError returns the response to an operation that failed before execution.
func dispatchError(ctx context.Context, exec graphql.GraphExecutor, err error) *graphql.Response {
	var list gqlerror.List
	if !errors.As(err, &list) {
		list = gqlerror.List{gqlerror.Wrap(err)}
	}
	return exec.DispatchError(ctx, list)
}

// each calls send with each response until there are no more, the context ends, or send fails; then
// it calls end. A response without data refuses the operation, and is the only one. slow reports
// that the client has missed events. If a subscription has to wait for an event, each returns, and
// resumes in another goroutine when there is one: thousands may wait.
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

// beginEvent waits until an event may execute and be delivered. The caller calls executed once it has
// executed, and delivered once it has been delivered. The viewer's slot is acquired first: a
// subscription that waits for it must not delay other viewers, neither by occupying delivery nor as
// the one that executes a shared event.
func (r *responses) beginEvent() (executed, delivered func()) {
	q := requestFrom(r.ctx)
	release := q.slot.Acquire(r.ctx)
	delivered = r.delivery.Begin(r.ctx)
	q.executed = 0
	return func() { release(q.executed) }, delivered
}

// deliver executes the next event, or the operation, and sends its response; nil if there is none.
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
