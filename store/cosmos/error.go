package cosmos

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"byline/store/cosmos/session"
)

// statusRetryWith is the status of a write that conflicted with a concurrent write of the same item. It
// was not executed.
const statusRetryWith = 449

// Substatuses.
const (
	substatusRangeGone     = "1002" // of a 410: the partition key range has been split or merged
	substatusNoContainer   = "1003" // of a 404: there is no such database or container
	substatusPartitionFull = "1014" // of a 403: the logical partition has reached its limit of 20 GB
	substatusControlPlane  = "5300" // of a 403: Entra identities may not create or change databases and containers
)

// Error is an error response of Cosmos DB, or a missing response.
type Error struct {
	Status     int           // HTTP; 0 without a response
	Substatus  string        // x-ms-substatus; "" if missing
	RetryAfter time.Duration // x-ms-retry-after-ms of a 429; 0 if unknown, never negative
	ActivityID string        // x-ms-activity-id, by which Azure's support finds the request; "" if missing
	Err        error         // the cause
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorOf returns the first Error in err's chain. It converts an error of azcosmos, and makes any other
// an Error without a response. Nil for nil.
func ErrorOf(err error) *Error {
	var e *Error
	var r *azcore.ResponseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case !errors.As(err, &r):
		return &Error{Err: err}
	}
	e = &Error{Status: r.StatusCode, Err: err}
	if r.RawResponse != nil {
		h := r.RawResponse.Header
		e.Substatus, e.ActivityID, e.RetryAfter = h.Get(substatusHeader), h.Get(activityHeader),
			retryAfter(r.RawResponse)
	}
	return e
}

// retryAfter returns the x-ms-retry-after-ms of a response; 0 if it is missing, malformed or negative.
func retryAfter(r *http.Response) time.Duration {
	d, err := time.ParseDuration(r.Header.Get(retryAfterHeader) + "ms")
	if err != nil {
		return 0
	}
	return max(0, d)
}

// wrap is ErrorOf as an error.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return ErrorOf(err)
}

// HasStatus reports whether err is a response of Cosmos DB with one of these HTTP statuses.
func HasStatus(err error, statuses ...int) bool {
	e := ErrorOf(err)
	return e != nil && e.Status != 0 && slices.Contains(statuses, e.Status)
}

// InvalidContinuation reports whether Cosmos DB refused the continuation of a query: with 400 if the query or
// the index has changed, with 410 and substatus 1002 if its partition has been split. It is false for nil.
func (e *Error) InvalidContinuation() bool {
	return e != nil && (e.Status == http.StatusBadRequest || e.Status == http.StatusGone &&
		e.Substatus == substatusRangeGone)
}

// isMissing reports whether err is Cosmos DB's response that the item does not exist.
func isMissing(err error) bool {
	e := ErrorOf(err)
	return e != nil && e.Status == http.StatusNotFound && e.Substatus != substatusNoContainer &&
		e.Substatus != session.Substatus
}

// NoContainer reports whether the database or the container does not exist.
func (e *Error) NoContainer() bool { return e.Substatus == substatusNoContainer }

// Unavailable reports whether Cosmos DB did not respond, cannot serve at the moment, or does not serve
// this program: its key is wrong, it lacks a role, or the container does not exist.
func (e *Error) Unavailable() bool {
	if e.PartitionFull() {
		return false
	}
	switch e.Status {
	case 0, statusRetryWith, http.StatusRequestTimeout, http.StatusGone, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusNotFound:
		return e.Substatus == session.Substatus || e.NoContainer()
	}
	return e.NoContainer()
}

// PartitionFull reports whether a write would have grown a logical partition beyond its limit
// ("Azure Cosmos DB service quotas": 20 GB). Only deletes help.
func (e *Error) PartitionFull() bool {
	return e.Status == http.StatusForbidden && e.Substatus == substatusPartitionFull
}

// ControlPlane reports whether Cosmos DB refused an operation that Entra identities may not do.
func (e *Error) ControlPlane() bool {
	return e.Status == http.StatusForbidden && e.Substatus == substatusControlPlane
}

// Ambiguous reports whether a write with this error may have been executed.
func (e *Error) Ambiguous() bool { return e.Status == 0 || slices.Contains(ambiguous, e.Status) }
