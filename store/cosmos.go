package store

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// retryWith is the status of a write that met another of the same item at that moment: it was
// not done.
const retryWith = 449

// ownerMissing is the substatus of a 404 that means: no such database or container.
const ownerMissing = "1003"

// hasStatus reports whether err is Cosmos DB's answer with one of these HTTP statuses.
func hasStatus(err error, statuses ...int) bool {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return false
	}
	for _, s := range statuses {
		if r.StatusCode == s {
			return true
		}
	}
	return false
}

func substatus(err error) string {
	var r *azcore.ResponseError
	if !errors.As(err, &r) || r.RawResponse == nil {
		return ""
	}
	return r.RawResponse.Header.Get("x-ms-substatus")
}

// isMissing reports whether err is Cosmos DB's answer that there is no such item.
func isMissing(err error) bool {
	if !hasStatus(err, http.StatusNotFound) {
		return false
	}
	s := substatus(err)
	return s != ownerMissing && s != sessionAhead
}

// cosmosError turns what azcosmos returned into an Error. Statuses that mean
// something to the operation (404, 409, 412) are for the caller to handle first;
// what is left of them here is a surprise.
func cosmosError(op string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Code: Internal, Op: op, Err: err}
	var r *azcore.ResponseError
	switch {
	case errors.Is(err, context.Canceled):
		e.Code = Canceled
	case !errors.As(err, &r):
		e.Code = Unavailable // no answer: dialling, TLS, a connection that broke, a deadline
	case substatus(err) == ownerMissing, r.StatusCode == http.StatusNotFound && substatus(err) == sessionAhead:
		e.Code = Unavailable
	default:
		e.Code = codeOfStatus(r.StatusCode)
		if e.Code == Throttled {
			e.RetryAfter = retryAfter(r.RawResponse)
		}
	}
	return e
}

// codeOfStatus is the meaning of a status that no operation expects.
func codeOfStatus(status int) Code {
	switch status {
	case http.StatusTooManyRequests:
		return Throttled
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case retryWith, http.StatusRequestTimeout, http.StatusGone, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unavailable // a wrong key or a missing role: the account does not serve us
	}
	return Internal
}

func retryAfter(r *http.Response) time.Duration {
	if r == nil {
		return 0
	}
	ms, err := time.ParseDuration(r.Header.Get("x-ms-retry-after-ms") + "ms")
	if err != nil {
		return 0
	}
	return ms
}
