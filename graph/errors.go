package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store/blog"
	"byline/store/cosmos"
)

// panicked is a panic recovered from a resolver or a loader.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// caught converts the value of recover to an error. Only the deferred function itself may call it,
// while the stack is that of the panic.
func caught(value any) error { return &panicked{value: value, stack: debug.Stack()} }

// guarded converts a panic of read to an error, so that waiting callers return.
func guarded[V any](read func() (V, error)) (value V, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = caught(v)
		}
	}()
	return read()
}

// failure is a classified error: what the client may read, and the operation, for the operator.
type failure struct {
	code       refusal.Code
	field      string
	reason     blog.Reason
	message    string
	retryAfter time.Duration
	until      blog.Date

	op string
}

// Messages for clients that do not say the cause.
const (
	messageThrottled    = "too many requests; try again later"
	messageUnavailable  = "the service is temporarily unavailable; try again later"
	messageInternal     = "internal server error"
	messageLimitReached = "this has as much as it can have"                        // if the store has no message
	messageConflict     = "changed by another request at the same time; try again" // likewise
)

// classify assigns every error its code and message.
func classify(err error) failure {
	var r *refusal.Error
	if errors.As(err, &r) {
		f := failure{code: r.Code, field: r.Field, reason: r.Reason, message: r.Message, retryAfter: r.RetryAfter}
		if f.code == refusal.Throttled {
			f.retryAfter = cmp.Or(f.retryAfter, refusal.DefaultRetryAfter)
		}
		return f
	}
	e := &blog.Error{Code: blog.Internal}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Code = blog.Canceled // unless it is a blog.Error
	}
	errors.As(err, &e)
	f := failure{op: e.Op, field: e.Field, reason: e.Reason, message: e.Message}
	switch e.Code {
	case blog.Invalid:
		f.code = refusal.BadUserInput
	case blog.Forbidden:
		f.code = refusal.Forbidden
	case blog.NotFound:
		f.code = refusal.NotFound
	case blog.Conflict:
		f.code, f.message, f.retryAfter = refusal.Conflict, cmp.Or(e.Message, messageConflict), e.RetryAfter
		f.reason = cmp.Or(e.Reason, blog.ReasonConcurrent)
	case blog.LimitReached:
		f.code, f.message, f.until = refusal.LimitReached, cmp.Or(e.Message, messageLimitReached), e.Until
		f.reason = cmp.Or(e.Reason, blog.ReasonFull)
	case blog.Throttled:
		f.code, f.field, f.message, f.retryAfter = refusal.Throttled, "", messageThrottled, e.RetryAfter
		if e.Err == nil { // a limit of the store's own
			f.message = cmp.Or(e.Message, messageThrottled)
		}
		if f.retryAfter <= 0 {
			f.retryAfter = refusal.DefaultRetryAfter
		}
	case blog.Unavailable, blog.Canceled:
		f.code, f.field, f.message = refusal.Unavailable, "", messageUnavailable
	default:
		f.code, f.field, f.message = refusal.Internal, "", messageInternal
	}
	return f
}

// classifyProtocol classifies an error of the GraphQL engine itself: a document
// that does not parse or validate, or a variable of the wrong type. As in Apollo
// Server the latter is BAD_USER_INPUT.
func classifyProtocol(err *gqlerror.Error) (failure, ast.Path) {
	f := failure{code: refusal.Internal, message: messageInternal}
	path := err.Path
	switch code, _ := err.Extensions["code"].(string); {
	case len(path) > 1 && path[0] == ast.PathName("variable"):
		// The path leads to the variable: it is not a response path.
		field := refusal.Truncate(path[1:].String(), refusal.MaxMessage)
		f = failure{code: refusal.BadUserInput, field: field, reason: blog.ReasonType,
			message: refusal.Truncate(err.Message, refusal.MaxMessage)}
		path = nil
	case err.Message == noField("__schema"), err.Message == noField("__type"):
		f = failure{code: refusal.ValidationFailed, message: messageNoIntrospection}
	case refusal.Code(code) == refusal.ParseFailed, refusal.Code(code) == refusal.ValidationFailed:
		f = failure{code: refusal.Code(code), message: refusal.Truncate(err.Message, refusal.MaxMessage)}
	}
	return f, path
}

const messageNoIntrospection = "introspection is disabled: the schema is in schema.graphqls"

// noField is the message of the validation for a field of Query that is not in the schema. Schema removes those of
// introspection.
func noField(name string) string {
	return fmt.Sprintf("Cannot query field %q on type \"Query\".", name)
}

const (
	maxErrors = 100  // of a response: each field of each item may have one
	maxCause  = 4000 // bytes of a cause in the log
)

// failureKey identifies failures that are logged once per request.
type failureKey struct {
	op   string
	code refusal.Code
}

// presenter turns errors into what clients see, and logs them.
type presenter struct {
	log    *slog.Logger
	events *logLimit[failureKey] // of subscriptions: each change may fail in thousands of them
}

func newPresenter(log *slog.Logger) presenter {
	return presenter{log, newLogLimit[failureKey](eventLogInterval)}
}

// eventLogInterval is how often a kind of failure of subscriptions is logged.
const eventLogInterval = 10 * time.Second

// present implements graphql.ErrorPresenterFunc.
func (p presenter) present(ctx context.Context, err error) *gqlerror.Error {
	var in *gqlerror.Error
	if !errors.As(err, &in) {
		in = gqlerror.WrapPath(graphql.GetPath(ctx), err)
	}
	r := transport.RequestOf(ctx)
	if replaced(ctx, err) {
		return nil // omitted from the response
	}
	path := in.Path
	var f failure
	if in.Err == nil {
		f, path = classifyProtocol(in)
	} else {
		f = classify(in.Err)
	}
	p.logFailure(ctx, r, f, path, in)
	if r.Errors.Add(1) > maxErrors {
		return nil // omitted from the response
	}

	out := &gqlerror.Error{Message: f.message, Path: path, Locations: in.Locations, Extensions: map[string]any{
		"code": string(f.code), "requestId": r.ID,
	}}
	if f.field != "" {
		out.Extensions["field"] = f.field
	}
	if f.reason != "" {
		out.Extensions["reason"] = string(f.reason)
	}
	if f.until != "" {
		out.Extensions["until"] = string(f.until)
	}
	if w := (*writtenError)(nil); errors.As(err, &w) {
		out.Message, out.Extensions["id"] = messageWritten, w.id
	} else if f.retryAfter > 0 {
		out.Extensions["retryAfterMs"] = f.retryAfter.Milliseconds()
	}
	return out
}

// Keys of log attributes.
const (
	logOp         = "op"
	logCode       = "code"
	logPath       = "path"
	logRequestID  = "requestId"
	logRU         = "ru"
	logActivityID = "activityId"
	logError      = "error"
	logStack      = "stack"
	logReason     = "reason"
	logSuppressed = "suppressed"
)

// logFailure logs each kind of failure once per request. For subscriptions, which may fail with each
// event, it logs each kind once in ten seconds.
func (p presenter) logFailure(ctx context.Context, r *transport.Request, f failure, path ast.Path, err error) {
	level := slog.LevelDebug // a user's mistake
	switch {
	case f.code == refusal.Internal:
		level = slog.LevelError
	case errors.Is(ctx.Err(), context.Canceled): // the client is gone
	case errors.As(err, new(*refusal.Error)): // clients can cause many
	case f.code == refusal.Unavailable,
		f.code == refusal.Throttled && f.message == messageThrottled: // not a limit of one user
		level = slog.LevelWarn
	}
	if !p.log.Enabled(ctx, level) {
		return
	}
	kind, suppressed := failureKey{op: f.op, code: f.code}, 0
	first := false
	if isOf(ctx, ast.Subscription) {
		suppressed, first = p.events.admit(kind)
	} else {
		first = r.FirstTime(kind)
	}
	if !first {
		return
	}
	attrs := []slog.Attr{slog.String(logOp, cmp.Or(f.op, "execute")), slog.String(logCode, string(f.code)),
		slog.String(logPath, refusal.Truncate(path.String(), maxCause)),
		slog.String(logRequestID, r.ID), slog.Float64(logRU, math.Round(r.Meter.Spent()*100)/100),
		slog.String(logError, refusal.Truncate(refusal.Cause(err), maxCause))}
	if e := (*cosmos.Error)(nil); errors.As(err, &e) && e.ActivityID != "" {
		attrs = append(attrs, slog.String(logActivityID, e.ActivityID))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int(logSuppressed, suppressed))
	}
	var crash *panicked
	if errors.As(err, &crash) {
		attrs = append(attrs, slog.String(logStack, string(crash.stack)))
	}
	p.log.LogAttrs(ctx, level, "operation failed", attrs...)
}

// recovered implements graphql.RecoverFunc.
func recovered(_ context.Context, value any) error { return caught(value) }

// logLimit limits the log lines of each kind to one in an interval. There must be few kinds. It is safe for
// concurrent use.
type logLimit[K comparable] struct {
	interval time.Duration

	mu     sync.Mutex
	byKind map[K]lastLine // guarded by mu
}

// lastLine records the last log line of a kind.
type lastLine struct {
	logged     time.Time
	suppressed int // lines since then
}

func newLogLimit[K comparable](interval time.Duration) *logLimit[K] {
	return &logLimit[K]{interval: interval, byKind: map[K]lastLine{}}
}

// admit reports whether to log a line, and how many of its kind were not logged before it.
func (l *logLimit[K]) admit(kind K) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, now := l.byKind[kind], time.Now()
	if now.Sub(last.logged) < l.interval {
		last.suppressed++
		l.byKind[kind] = last
		return 0, false
	}
	l.byKind[kind] = lastLine{logged: now}
	return last.suppressed, true
}
