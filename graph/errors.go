package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/store"
)

// errorCode is what a client finds in extensions.code. The set is closed.
type errorCode string

const (
	badUserInput      errorCode = "BAD_USER_INPUT" // field names what is at fault
	unauthenticated   errorCode = "UNAUTHENTICATED"
	forbidden         errorCode = "FORBIDDEN"
	notFound          errorCode = "NOT_FOUND"
	conflict          errorCode = "CONFLICT"
	throttled         errorCode = "THROTTLED" // retryAfterMs says when to come back
	queryTooExpensive errorCode = "QUERY_TOO_EXPENSIVE"
	unavailable       errorCode = "UNAVAILABLE"
	internal          errorCode = "INTERNAL"

	parseFailed      errorCode = errcode.ParseFailed
	validationFailed errorCode = errcode.ValidationFailed

	persistedNotFound errorCode = "PERSISTED_QUERY_NOT_FOUND"
)

// status is the HTTP status of a request that was refused with the code before
// execution began, when the client accepts application/graphql-response+json.
// (GraphQL over HTTP, section 6.4.2; with application/json it is always 200.)
func (c errorCode) status() int {
	switch c {
	case unauthenticated:
		return http.StatusUnauthorized
	case forbidden:
		return http.StatusForbidden
	case throttled:
		return http.StatusTooManyRequests
	case unavailable:
		return http.StatusServiceUnavailable
	case internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// refusal is an error of the edge itself, about something that never reaches the store.
type refusal struct {
	code    errorCode
	field   string
	message string // for the client
	err     error  // the cause, for the operator; may be nil

	retryAfter time.Duration // with throttled, 0 for the default, and with unavailable, 0 for none
}

func (r *refusal) Error() string {
	if r.err != nil {
		return fmt.Sprintf("%s: %s: %v", r.code, r.message, r.err)
	}
	return fmt.Sprintf("%s: %s", r.code, r.message)
}

func (r *refusal) Unwrap() error { return r.err }

// refuse makes a refusal of bad input.
func refuse(field, format string, args ...any) error {
	return &refusal{code: badUserInput, field: field, message: fmt.Sprintf(format, args...)}
}

// panicked is a panic that was caught on its way out of a resolver or a loader.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// caught makes the value of recover into an error. It must be called by the
// deferred function itself, while the stack of the panic is still there.
func caught(value any) error { return &panicked{value: value, stack: debug.Stack()} }

// failure is an error, classified: what the client may read of it, and what the
// operator needs.
type failure struct {
	code       errorCode
	field      string
	message    string
	retryAfter time.Duration

	op string
}

// What the client reads where the cause is none of its business.
const (
	messageThrottled   = "too many requests; try again later"
	messageUnavailable = "the service is temporarily unavailable; try again later"
	messageInternal    = "internal server error"
	messageConflict    = "changed by another request at the same time; try again" // where the store has nothing better

	defaultRetryAfter = time.Second
)

// classify is the one place where errors get their code and message.
func classify(err error) failure {
	var r *refusal
	if errors.As(err, &r) {
		f := failure{code: r.code, field: r.field, message: r.message, retryAfter: r.retryAfter}
		if f.code == throttled {
			f.retryAfter = cmp.Or(f.retryAfter, defaultRetryAfter)
		}
		return f
	}
	e := &store.Error{Code: store.Internal}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Code = store.Canceled // unless the store knows better
	}
	errors.As(err, &e)
	f := failure{op: e.Op, field: e.Field, message: e.Message}
	switch e.Code {
	case store.Invalid:
		f.code = badUserInput
	case store.Forbidden:
		f.code = forbidden
	case store.NotFound:
		f.code = notFound
	case store.Conflict:
		f.code, f.message = conflict, cmp.Or(e.Message, messageConflict)
	case store.Throttled:
		f.code, f.field, f.message, f.retryAfter = throttled, "", messageThrottled, e.RetryAfter
		if f.retryAfter <= 0 {
			f.retryAfter = defaultRetryAfter
		}
	case store.Unavailable, store.Canceled:
		f.code, f.field, f.message = unavailable, "", messageUnavailable
	default:
		f.code, f.field, f.message = internal, "", messageInternal
	}
	return f
}

// classifyProtocol classifies an error of the GraphQL engine itself: a document
// that does not parse or validate, or a variable of the wrong type. As in Apollo
// Server the latter is BAD_USER_INPUT.
func classifyProtocol(err *gqlerror.Error) (failure, ast.Path) {
	f := failure{code: internal, message: messageInternal}
	path := err.Path
	switch code, _ := err.Extensions["code"].(string); {
	case len(path) > 1 && path[0] == ast.PathName("variable"):
		// Not a response path: it leads to the variable.
		field := bounded(path[1:].String(), maxMessage)
		f = failure{code: badUserInput, field: field, message: bounded("$"+field+": "+err.Message, maxMessage)}
		path = nil
	case errorCode(code) == parseFailed, errorCode(code) == validationFailed:
		f = failure{code: errorCode(code), message: bounded(err.Message, maxMessage)}
	}
	return f, path
}

const (
	maxErrors  = 100  // of an answer: each field of each item may have one
	maxMessage = 300  // bytes of a message that may quote what the client sent
	maxCause   = 4000 // bytes of a cause in the log
)

func bounded(s string, end int) string {
	if len(s) <= end {
		return s
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// presenter turns errors into what clients see, and tells the operator.
type presenter struct{ log *slog.Logger }

// present implements graphql.ErrorPresenterFunc.
func (p presenter) present(ctx context.Context, err error) *gqlerror.Error {
	var in *gqlerror.Error
	if !errors.As(err, &in) {
		in = gqlerror.WrapPath(graphql.GetPath(ctx), err)
	}
	path := in.Path
	var f failure
	if in.Err == nil {
		f, path = classifyProtocol(in)
	} else {
		f = classify(in.Err)
	}
	r := requestFrom(ctx)
	p.tell(ctx, r, f, path, in)
	if r.errors.Add(1) > maxErrors {
		return nil // and so is not in the answer
	}

	out := &gqlerror.Error{Message: f.message, Path: path, Locations: in.Locations, Extensions: map[string]any{
		"code": string(f.code), "requestId": r.id,
	}}
	if f.field != "" {
		out.Extensions["field"] = f.field
	}
	if f.retryAfter > 0 {
		out.Extensions["retryAfterMs"] = f.retryAfter.Milliseconds()
	}
	return out
}

// Keys of log attributes.
const (
	logOp        = "op"
	logCode      = "code"
	logPath      = "path"
	logRequestID = "requestId"
	logError     = "error"
	logStack     = "stack"
	logRefused   = "refused"   // operations, since the last line
	logExecuting = "executing" // operations at a time at most
)

// tell writes one line for the operator for each kind of failure in a request.
func (p presenter) tell(ctx context.Context, r *request, f failure, path ast.Path, err error) {
	if !r.firstTime(failureKey{op: f.op, code: f.code}) {
		return
	}
	level := slog.LevelDebug // a user's mistake
	switch {
	case f.code == internal:
		level = slog.LevelError
	case errors.Is(ctx.Err(), context.Canceled): // nobody is waiting for the answer
	case errors.As(err, new(*refusal)): // there may be many, and they cost nothing
	case f.code == unavailable, f.code == throttled:
		level = slog.LevelWarn
	}
	if !p.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String(logOp, cmp.Or(f.op, "execute")), slog.String(logCode, string(f.code)), slog.String(logPath, bounded(path.String(), maxCause)),
		slog.String(logRequestID, r.id), slog.String(logError, bounded(operatorText(err), maxCause))}
	var crash *panicked
	if errors.As(err, &crash) {
		attrs = append(attrs, slog.String(logStack, string(crash.stack)))
	}
	p.log.LogAttrs(ctx, level, "operation failed", attrs...)
}

// operatorText is the cause without the path and position that gqlerror puts before it.
func operatorText(err error) string {
	var e *gqlerror.Error
	if errors.As(err, &e) {
		if e.Err != nil {
			return e.Err.Error()
		}
		return e.Message
	}
	return err.Error()
}

// recovered implements graphql.RecoverFunc.
func recovered(_ context.Context, value any) error { return caught(value) }
