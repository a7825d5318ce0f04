package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// WriteOnce is a policy, per try, for the client that serves requests. A write that
// may have been done without an answer to say so (a connection that broke, a gateway
// that gave up) is not sent again, as azcore would: an increment would count twice,
// and a condition that held the first time would fail. The Store reads instead what
// became of it. One that was not done, since it met another of the same item (449), is
// sent again, as azcosmos would not.
func WriteOnce() policy.Policy { return writeOnce{} }

type writeOnce struct{}

// The pauses before a write that met another is sent again: each is twice the one before.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 32 * firstPause
)

// unclear are the statuses after which a write may have been done.
var unclear = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (writeOnce) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if !isWrite(req.Raw()) {
		return resp, err
	}
	for pause := firstPause; err == nil && resp.StatusCode == retryWith && pause <= lastPause; pause *= 2 {
		runtime.Drain(resp)
		if !sleep(req.Raw().Context(), jittered(pause)) {
			return nil, finalError{req.Raw().Context().Err()}
		}
		if err := req.RewindBody(); err != nil {
			return nil, finalError{err}
		}
		resp, err = req.Next()
	}
	if err == nil && slices.Contains(unclear, resp.StatusCode) {
		err = runtime.NewResponseError(resp)
	}
	if err != nil {
		return nil, finalError{err}
	}
	return resp, nil
}

// jittered is half a pause to a whole one, so that those that met do not meet again.
func jittered(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// isWrite reports whether a request changes items; a POST may also be a query.
func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	case http.MethodPost:
		return !strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json")
	}
	return false
}

// finalError is an error after which azcore does not try again.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// NonRetriable marks the error for azcore.
func (finalError) NonRetriable() {}

// unanswered reports whether a write ended with an error that does not tell if it was
// done. A caller that has gone is not told either way.
func unanswered(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return slices.Contains(unclear, r.StatusCode)
	}
	var known *Error
	return !errors.As(err, &known) || known.Err != nil // what the Store says by itself rests on an answer
}
