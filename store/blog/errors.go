package blog

import (
	"errors"
	"fmt"
	"time"
)

// Code says what kind of failure an Error is. The set is closed.
type Code string

// The codes. Internal is also the code of every error that is not an Error.
const (
	Invalid      Code = "INVALID"       // the input is invalid; Field names the part
	Forbidden    Code = "FORBIDDEN"     // the target has another owner, or the caller has no user yet
	NotFound     Code = "NOT_FOUND"     // the target does not exist, or no longer exists
	Conflict     Code = "CONFLICT"      // the target has changed, or a unique name is taken
	LimitReached Code = "LIMIT_REACHED" // a limit on what there may be; Until says whether it ends by itself
	Throttled    Code = "THROTTLED"     // out of request units; RetryAfter says when to retry
	Unavailable  Code = "UNAVAILABLE"   // Cosmos DB cannot be reached or cannot serve
	Canceled     Code = "CANCELED"      // the caller is gone
	Internal     Code = "INTERNAL"      // a bug, in Byline or in Cosmos DB
)

// Reason says why, where errors of one Code have several causes that a client may want to tell apart. The set is
// closed, and documented as ErrorReason in the schema.
type Reason string

// The reasons of Invalid.
const (
	ReasonBlank      Reason = "BLANK"
	ReasonTooShort   Reason = "TOO_SHORT"
	ReasonTooLong    Reason = "TOO_LONG"
	ReasonTooMany    Reason = "TOO_MANY"
	ReasonTooComplex Reason = "TOO_COMPLEX"
	ReasonCharacter  Reason = "CHARACTER"
	ReasonFormat     Reason = "FORMAT"
	ReasonRange      Reason = "RANGE"
	ReasonType       Reason = "TYPE"
	ReasonReserved   Reason = "RESERVED"
	ReasonMismatch   Reason = "MISMATCH"
	ReasonRequest    Reason = "REQUEST"
)

// The reasons of requests without a valid token, and of Forbidden.
const (
	ReasonNoToken      Reason = "NO_TOKEN"
	ReasonInvalidToken Reason = "INVALID_TOKEN"
	ReasonExpiredToken Reason = "EXPIRED_TOKEN"

	ReasonNoUser    Reason = "NO_USER"
	ReasonNotYours  Reason = "NOT_YOURS"
	ReasonOrigin    Reason = "ORIGIN"
	ReasonUntrusted Reason = "UNTRUSTED_DOCUMENT"
)

// The reasons of Conflict and LimitReached.
const (
	ReasonTaken        Reason = "TAKEN"
	ReasonOutdated     Reason = "OUTDATED"
	ReasonKeyUsed      Reason = "KEY_USED"
	ReasonHasUser      Reason = "HAS_USER"
	ReasonBeingDeleted Reason = "BEING_DELETED"
	ReasonConcurrent   Reason = "CONCURRENT"
	ReasonLater        Reason = "LATER_VERSION"

	ReasonLimit Reason = "LIMIT"
	ReasonFull  Reason = "FULL"
)

// Error is the only error type of store and projection. Input with several invalid fields has one for
// each, joined by errors.Join. Message may be shown to the client; Op and Err are for the operator. The message of an
// error with a Field does not name it, so that a form can show it after a label of its own: "must not be blank".
type Error struct {
	Code       Code
	Op         string        // the operation, such as "create post"
	Field      string        // the invalid or conflicting input, or ""
	Reason     Reason        // with Invalid, Forbidden, Conflict and LimitReached of the store
	Message    string        // safe for the client
	RetryAfter time.Duration // with Throttled and Conflict: when a retry makes sense; zero if unknown
	Until      Date          // with LimitReached: when the limit ends; "" if it does not end by itself
	Err        error         // the cause, never for the client
}

// Error returns the operator's view: operation, code, field, message and cause.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += fmt.Sprintf(": %v", e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, Internal for other errors, and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Invalidf returns an Error of code Invalid.
func Invalidf(op, field string, reason Reason, format string, args ...any) error {
	return &Error{Code: Invalid, Op: op, Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// NoPost returns the NotFound of a post.
func NoPost(op string) error {
	return &Error{Code: NotFound, Op: op, Message: "post not found"}
}
