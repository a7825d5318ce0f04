package cosmos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// retryWrites is a policy, per try, for requests. A write that may have been done without
// an answer to say so (a connection that broke, a gateway that gave up) is ambiguous: it is
// not sent again, as azcore would, since an increment would count twice, and a condition
// that held the first time would fail. The caller reads instead what became of it (see
// Error.Ambiguous).
type retryWrites struct{}

// ambiguous are the statuses after which a write may have been done.
var ambiguous = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// Do implements policy.Policy.
func (retryWrites) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if !isWrite(req.Raw()) {
		return resp, err
	}
	if err == nil && slices.Contains(ambiguous, resp.StatusCode) {
		err = runtime.NewResponseError(resp)
	}
	if err != nil {
		return nil, finalError{err}
	}
	return resp, nil
}

// retryMet is a policy, per try, for requests and background work. A write that was not done, since it
// met another of the same item (449), is sent again, as azcosmos would not.
type retryMet struct{ budget time.Duration }

// The pauses before a write that met another is sent again: each is twice the one before.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 32 * firstPause
)

// Do implements policy.Policy.
func (r retryMet) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	for pause := firstPause; err == nil && resp.StatusCode == statusRetryWith && pause <= lastPause; pause *= 2 {
		wait := jittered(pause)
		if !scopeOf(req.Raw().Context()).retries.allows(wait, r.budget) {
			break
		}
		runtime.Drain(resp)
		if !sleep(req.Raw().Context(), wait) {
			return nil, finalError{req.Raw().Context().Err()}
		}
		if err := req.RewindBody(); err != nil {
			return nil, finalError{err}
		}
		resp, err = req.Next()
	}
	return resp, err
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

// written returns what a write has ended with. If that is ambiguous, the session token that tells
// how new a read must be to show the write has not arrived, so it asks for the partition's newest:
// a batch is executed where writes are. A later read of the outcome does not meet
// a replica that is behind it.
func (c *Container) written(ctx context.Context, partition string, err error) error {
	if err == nil {
		return nil
	}
	e := ErrorOf(err)
	if e.Ambiguous() && ctx.Err() == nil {
		b := Batch{NoItems: true}
		b.Read(partition)                                        // whether there is such an item does not matter
		_, _, _ = c.execute(WithWrites(ctx, nil), partition, &b) // it is no write
	}
	return e
}
