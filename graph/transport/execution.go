package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/cosmos"
)

// executionTimeout is how long a query or mutation may execute.
const executionTimeout = 30 * time.Second

// transport is what GraphQL over HTTP and over WebSocket have in common.
type transport struct {
	exec         graphql.GraphExecutor
	schema       *ast.Schema
	store        *store.Store
	authenticate func(context.Context, http.Header) (*auth.Viewer, error)
	recover      graphql.RecoverFunc
	classify     func(error) (refusal.Code, string)
	budget       func(context.Context) time.Duration
	streams      context.Context // event streams and WebSockets end when it does
	requests     limit.Requests
	bodies       limit.Bodies
	memory       *limit.Memory
	admission    *limit.Admission
	open         *limit.Subscriptions
}

// signIn records in r the viewer of the bearer token in the headers.
func (t *transport) signIn(ctx context.Context, r *Request, h http.Header) error {
	v, err := t.authenticate(ctx, h)
	if v != nil {
		r.signIn(*v)
	}
	return err
}

// guarded converts a panic of f to an error, so that waiting callers return.
func guarded[V any](ctx context.Context, recovered graphql.RecoverFunc, f func() (V, error)) (value V, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(ctx, v)
		}
	}()
	return f()
}

// responses are the responses of an operation that has begun.
type responses struct {
	*transport
	ctx  context.Context
	kind ast.Operation
	next graphql.ResponseHandler
	*subscription

	delayed bool // an event has waited for the viewer's budget
}

// begin begins an operation. The caller cancels ctx once it has read the responses. A panic becomes
// an error response: callers run outside the recover of net/http, so it would end the process.
func (t *transport) begin(ctx context.Context, params *graphql.RawParams) *responses {
	err := t.admission.Shed()
	if err == nil {
		err = t.admission.Acquire(ctx)
	}
	if err != nil {
		return t.refused(ctx, err)
	}
	op, err := guarded(ctx, t.recover, func() (op *graphql.OperationContext, err error) {
		op, errs := t.prepareOperation(ctx, params)
		if errs != nil {
			err = errs
		}
		return op, err
	})
	if err != nil {
		t.admission.Release()
		return t.refused(ctx, err)
	}
	return t.dispatch(ctx, op, t.admission.Release)
}

// prepareOperation finds and validates the operation that a request names. A subscription then counts as open
// until ctx ends.
func (t *transport) prepareOperation(
	ctx context.Context, params *graphql.RawParams,
) (*graphql.OperationContext, gqlerror.List) {
	op, errs := t.exec.CreateOperationContext(ctx, params)
	document.Locate(params.Query, errs)
	if errs != nil && op.Operation != nil { // the executor reports the first invalid variable alone
		if all := document.VariableErrors(t.schema, op.Operation, params.Variables); all != nil {
			return op, all
		}
	}
	if errs == nil && op.Operation.Operation == ast.Subscription {
		if err := t.admitSubscription(ctx, op); err != nil {
			return op, gqlerror.List{gqlerror.Wrap(err)}
		}
	}
	if op.Doc == nil || op.Operation != nil || params.OperationName != "" {
		return op, errs
	}
	// The executor's error would be that the operation is not found.
	message := "the document has several operations: set operationName to the one to execute"
	if len(op.Doc.Operations) == 0 {
		message = "the document has no operation"
	}
	return op, gqlerror.List{gqlerror.Wrap(&refusal.Error{Code: refusal.ValidationFailed, Message: message})}
}

// admitSubscription refuses a subscription beyond the limits.
func (t *transport) admitSubscription(ctx context.Context, op *graphql.OperationContext) (err error) {
	r := RequestOf(ctx)
	r.slot, err = t.open.Admit(ctx, r.Client(), r.size+document.Bytes(op.RawQuery))
	return err
}

// dispatch is begin for an operation that has been parsed and validated. It calls releaseSlot once
// a query or mutation has executed, or a subscription waits for events. It reserves memory for the response to
// a query or mutation, which the caller releases by request.sent.
func (t *transport) dispatch(ctx context.Context, op *graphql.OperationContext, releaseSlot func()) (all *responses) {
	s, kind := &subscription{}, op.Operation.Operation
	defer func() {
		if v := recover(); v != nil {
			releaseSlot()
			all = t.refused(ctx, t.recover(ctx, v))
		} else if kind == ast.Subscription { // it waits for events now
			releaseSlot()
		}
	}()
	if kind == ast.Subscription {
		op.Extensions = nil // no longer needed, and they may be long
	} else if err := RequestOf(ctx).reserve(t.memory, kind); err != nil {
		releaseSlot()
		return t.refused(ctx, err)
	}
	next, ctx := t.exec.DispatchOperation(RequestOf(ctx).executing(context.WithValue(ctx, subscriptionKey{}, s)), op)
	if kind == ast.Subscription {
		return &responses{transport: t, ctx: ctx, kind: kind, next: next, subscription: s}
	}
	return &responses{transport: t, ctx: ctx, kind: kind, subscription: s,
		next: func(ctx context.Context) *graphql.Response {
			defer releaseSlot()
			ctx, cancel := context.WithTimeout(ctx, executionTimeout)
			defer cancel()
			if kind == ast.Query { // what remains to be read is not needed
				RequestOf(ctx).Memory.OnRefuse(cancel)
			}
			return next(cosmos.WithMemory(ctx, readMemory{RequestOf(ctx).Memory}))
		}}
}

// refused returns the only response of an operation that is refused.
func (t *transport) refused(ctx context.Context, err error) *responses {
	return &responses{transport: t, ctx: ctx, kind: ast.Query, next: graphql.OneShot(t.dispatchError(ctx, err)),
		subscription: &subscription{}}
}

// dispatchError returns the response to an operation that failed before execution.
func (t *transport) dispatchError(ctx context.Context, err error) *graphql.Response {
	var list gqlerror.List
	if !errors.As(err, &list) {
		list = gqlerror.List{gqlerror.Wrap(err)}
	}
	return t.exec.DispatchError(ctx, list)
}

// sender sends a response, which has been encoded in pieces.
type sender func(_ *graphql.Response, pieces [][]byte) error

// each calls send with each response until there are no more, the context ends, or send fails; then
// it calls end. A response without data refuses the operation, and is the only one. slow reports
// that the client has missed events. If a subscription has to wait for an event, each returns, and
// resumes in another goroutine when there is one: thousands may wait. Likewise if its viewer has no request units left:
// when too many events wait, they end the subscription.
func (r *responses) each(send sender, end func(slow bool, err error)) {
	resume := func() { r.each(send, end) }
	for !r.await(resume) {
		if r.delay(resume) {
			return
		}
		if response, err := r.deliver(send); response == nil {
			slow := r.ctx.Err() == nil && r.tooSlow()
			if slow && r.delayed {
				refused := r.dispatchError(r.ctx, errDelayed)
				end(false, send(refused, pieces(refused)))
				return
			}
			end(slow, nil)
			return
		} else if err != nil || response.Data == nil || r.kind != ast.Subscription {
			end(false, err)
			return
		}
	}
}

// errDelayed is the error of a subscription whose events have waited for the viewer's budget until there were too many.
var errDelayed = &refusal.Error{Code: refusal.Throttled, RetryAfter: time.Second,
	Message: "too many events have waited for request units; subscribe again"}

// delay reports whether the next event of a subscription has to wait for the viewer's budget. If so, it calls f when
// there is enough, or when ctx ends.
func (r *responses) delay(f func()) bool {
	if r.kind != ast.Subscription {
		return false
	}
	wait, err := guarded(r.ctx, r.recover, func() (time.Duration, error) { return r.budget(r.ctx), nil })
	if wait == 0 || err != nil {
		return false
	}
	r.delayed = true
	go func() {
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
		}
		f()
	}()
	return true
}

// deliver executes the next event, or the operation, and sends its response; nil if there is none.
func (r *responses) deliver(send sender) (*graphql.Response, error) {
	caller := RequestOf(r.ctx)
	defer caller.sent()
	release := caller.slot.Acquire(r.ctx) // first: what waits for it must not delay other viewers
	if r.kind == ast.Subscription {
		defer r.admission.AcquireEvent(r.ctx)()
	}
	caller.executed = 0
	response := r.execute()
	release(caller.executed)
	if response == nil {
		return nil, nil
	}
	addSession(r.ctx, r.kind, response)
	return response, send(response, caller.send(response))
}

// execute executes the next event, or the operation.
func (r *responses) execute() *graphql.Response {
	response, err := guarded(r.ctx, r.recover, func() (*graphql.Response, error) {
		if r.kind == ast.Subscription {
			return r.event()
		}
		return r.next(r.ctx), nil
	})
	if err != nil {
		return r.dispatchError(r.ctx, err)
	}
	return response
}

// event executes the next event of a subscription. The generated code neither begins the paths of errors with the
// field, nor makes data null if the field, which is non-null, failed. Each event has its own waiting time for the
// session: see cosmos.WithSession.
func (r *responses) event() (*graphql.Response, error) {
	caller := RequestOf(r.ctx)
	if err := caller.reserve(r.memory, r.kind); err != nil {
		return nil, err
	}
	ctx := cosmos.WithMemory(cosmos.WithSession(r.ctx, caller.Session), readMemory{caller.Memory})
	if !HasStream(ctx) {
		return r.next(ctx), nil
	}
	op := graphql.GetOperationContext(ctx)
	field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})[0]
	response := r.next(graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Subscription", Field: field}))
	if response != nil && string(response.Data) == `{"`+field.Alias+`":null}` {
		response.Data = json.RawMessage("null")
	}
	return response, nil
}

// shedLoad refuses requests while the server is overloaded, before it reads their bodies.
func shedLoad(a *limit.Admission, next http.Handler, refused func()) http.Handler {
	overloaded := limit.ErrOverloaded
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Shed() == nil {
			next.ServeHTTP(w, r)
			return
		}
		refused()
		h := w.Header()
		h.Set("Content-Type", mediaJSON+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", "1")
		writeBody(w, http.StatusServiceUnavailable,
			fmt.Appendf(nil,
				`{"errors":[{"message":%q,"extensions":{"code":%q,"requestId":%q,"retryAfterMs":%d}}]}`+"\n",
				overloaded.Message, overloaded.Code, RequestOf(r.Context()).ID, overloaded.RetryAfter.Milliseconds()))
	})
}
