// Package apierror has the error responses of the protocol: each with its status, substatus, message and charge.
package apierror

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/sql"
)

// Substatus codes of the protocol.
const (
	SubPartitionKeyMismatch = 1001 // with 400
	SubCrossPartition       = 1004 // with 400: the client has to merge partitions
	subRecreated            = 1024 // with 400: the container is another one than the client means
	SubReadSession          = 1002 // with 404: the session token is ahead
	SubOwnerNotFound        = 1003 // with 404: the database or container is missing
	subRangeGone            = 1002 // with 410: the partition key range was split
	subResponseFull         = 3402 // with 413: the batch response is full
	subThroughput           = 3200 // with 429: request units are used up
)

// Error is an error response of the protocol.
type Error struct {
	Status    int
	Substatus int
	Code      string
	Message   string
	Charge    float64
	Extra     string        // additionalErrorInfo, if any: JSON
	Wait      time.Duration // x-ms-retry-after-ms, if any
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

func BadRequest(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "BadRequest", Charge: charge.BadRequest,
		Message: fmt.Sprintf(format, args...)}
}

// Query formats an error of the query language as the service does: as JSON within the
// message.
func Query(err error) error {
	var se *sql.Error
	if !errors.As(err, &se) {
		return err
	}
	detail, err := json.Marshal(map[string]any{"errors": []map[string]any{{
		"severity": "Error", "code": "SC1001", "message": se.Message,
		"location": map[string]int{"start": se.Pos, "end": se.End},
	}}})
	if err != nil {
		return err
	}
	return BadRequest("%s", detail)
}

// InvalidHeader refuses the value of a header with this canonical name.
func InvalidHeader(name, value string) *Error {
	return BadRequest("The value '%s' specified for the header '%s' is invalid.", value, strings.ToLower(name))
}

func PartitionKeyMismatch(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Substatus: SubPartitionKeyMismatch, Code: "BadRequest",
		Charge:  charge.BadRequest,
		Message: message}
}

// Recreated reports that the container has the name, but not the resource id that the client knows.
func Recreated(rid string) *Error {
	return &Error{Status: http.StatusBadRequest, Substatus: subRecreated, Code: "BadRequest", Charge: charge.Metadata,
		Message: fmt.Sprintf("The container with the resource id '%s' does not exist: it may have been recreated.",
			rid)}
}

func Unauthorized(token string) *Error {
	message := "The input authorization token can't serve the request. " +
		"The wrong key is being used or the expected payload is not built as per the protocol."
	if strings.HasPrefix(token, "type=resource&") || strings.HasPrefix(token, "type%3Dresource%26") {
		message = "Resource tokens are not supported."
	}
	return &Error{Status: http.StatusUnauthorized, Code: "Unauthorized", Message: message}
}

func ItemNotFound() *Error {
	return &Error{Status: http.StatusNotFound, Code: "NotFound", Charge: charge.NotFound,
		Message: "Entity with the specified id does not exist in the system."}
}

func OwnerNotFound() *Error {
	return &Error{Status: http.StatusNotFound, Substatus: SubOwnerNotFound, Code: "NotFound", Charge: charge.Metadata,
		Message: "Owner resource does not exist"}
}

func ResourceNotFound() *Error {
	return &Error{Status: http.StatusNotFound, Code: "NotFound", Charge: charge.Metadata,
		Message: "Resource Not Found."}
}

func SessionNotAvailable() *Error {
	return &Error{Status: http.StatusNotFound, Substatus: SubReadSession, Code: "NotFound", Charge: charge.NotFound,
		Message: "The read session is not available for the input session token."}
}

func MethodNotAllowed() *Error {
	return &Error{Status: http.StatusMethodNotAllowed, Code: "MethodNotAllowed",
		Message: "The requested verb is not supported."}
}

func Conflict() *Error {
	return &Error{Status: http.StatusConflict, Code: "Conflict", Charge: charge.Conflict,
		Message: "Entity with the specified id already exists in the system."}
}

func UniqueViolation() *Error {
	return &Error{Status: http.StatusConflict, Code: "Conflict", Charge: charge.Conflict,
		Message: "Unique index constraint violation."}
}

func RangeGone() *Error {
	return &Error{Status: http.StatusGone, Substatus: subRangeGone, Code: "Gone",
		Message: "The requested resource is no longer available at the server."}
}

func PreconditionFailed() *Error {
	return &Error{Status: http.StatusPreconditionFailed, Code: "PreconditionFailed", Charge: charge.Precondition,
		Message: "Operation cannot be performed because one of the specified precondition is not met."}
}

func TooLarge() *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Code: "RequestEntityTooLarge", Charge: charge.BadRequest,
		Message: "Request size is too large"}
}

// BatchResponseFull reports that an item would make the response of a batch too large: the client has
// to read it separately.
func BatchResponseFull() *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Substatus: subResponseFull, Code: "RequestEntityTooLarge",
		Charge:  charge.BadRequest,
		Message: "The response of the batch is too large"}
}

func TooManyRequests(wait time.Duration) *Error {
	return &Error{Status: http.StatusTooManyRequests, Substatus: subThroughput, Code: "TooManyRequests",
		Charge: charge.Throttled, Wait: wait,
		Message: "The request rate is too large. Please retry after sometime."}
}

func Unavailable(message string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: message}
}

// Body formats the error as the service does.
func (e *Error) Body() []byte {
	b, err := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Extra   string `json:"additionalErrorInfo,omitempty"`
	}{e.Code, e.Message, e.Extra})
	if err != nil {
		return []byte(`{"code":"InternalServerError","message":""}`)
	}
	return b
}
