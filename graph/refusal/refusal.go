package refusal

import (
	"errors"
	"fmt"
	"time"

	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/internal/cut"
	"byline/store/blog"
)

// Code is what a client finds in extensions.code. The set is closed.
type Code string

const (
	BadUserInput      Code = "BAD_USER_INPUT" // field names what is at fault
	Unauthenticated   Code = "UNAUTHENTICATED"
	Forbidden         Code = "FORBIDDEN"
	NotFound          Code = "NOT_FOUND"
	Conflict          Code = "CONFLICT"
	LimitReached      Code = "LIMIT_REACHED" // a retry cannot help
	Throttled         Code = "THROTTLED"     // with retryAfterMs
	QueryTooExpensive Code = "QUERY_TOO_EXPENSIVE"
	Unavailable       Code = "UNAVAILABLE"
	Internal          Code = "INTERNAL"

	ParseFailed      Code = errcode.ParseFailed
	ValidationFailed Code = errcode.ValidationFailed

	PersistedNotFound Code = "PERSISTED_QUERY_NOT_FOUND"
)

// Error refuses an operation or a request before it reaches the store. It may be shared.
type Error struct {
	Code    Code
	Field   string
	Reason  blog.Reason // as of a blog.Error; also with Unauthenticated
	Message string      // for the client; that of an error with a Field does not name it
	Err     error       // the cause, for the operator; may be nil

	RetryAfter time.Duration // 0: DefaultRetryAfter for Throttled, none for other codes
}

func (r *Error) Error() string {
	s := string(r.Code)
	if r.Field != "" {
		s += ": " + r.Field
	}
	s += ": " + r.Message
	if r.Err != nil {
		s += ": " + r.Err.Error()
	}
	return s
}

func (r *Error) Unwrap() error { return r.Err }

// Input returns a refusal of bad input.
func Input(field string, reason blog.Reason, format string, args ...any) error {
	return &Error{Code: BadUserInput, Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// DefaultRetryAfter is when clients should retry if no better time is known.
const DefaultRetryAfter = time.Second

// MaxMessage is the maximum length in bytes of a message that quotes the request.
const MaxMessage = 300

// CodeOf returns the code of the first error of a response.
func CodeOf(errs gqlerror.List) Code {
	if len(errs) == 0 {
		return Internal
	}
	code, _ := errs[0].Extensions["code"].(string)
	return Code(code)
}

// Truncate cuts s to at most end bytes, and appends "..." if it was longer.
func Truncate(s string, end int) string {
	if len(s) <= end {
		return s
	}
	return cut.Bytes(s, end) + "..."
}

// Cause returns the text of an error for the operator, without the path and position that gqlerror
// prepends.
func Cause(err error) string {
	var e *gqlerror.Error
	if errors.As(err, &e) {
		if e.Err != nil {
			return e.Err.Error()
		}
		return e.Message
	}
	return err.Error()
}
