package cosmos

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"byline/store/internal/sleep"
)

// What repeats a request, a batch included (see bodyPolicy), depends on how it failed:
//
//	429, throttled              retryThrottled; for background work azcore, by backgroundRetry
//	449, conflicting writes     retryContended
//	503 of a read               azcosmos, in the next of Options.Regions; without regions retryUnavailable,
//	                            except for background work
//	408 of a read, no response  azcosmos, once, in the next of Options.Regions; see limitReads
//	404/1002, replicas behind   sessions, by replicaWait
//	an ambiguous write          not repeated, see failAmbiguous
//	other transient errors      azcore, by Options.Retry; not repeated for background work
//
// Except for background work and azcore's, all their pauses are within the retryWindow of the operation.

// The first and the last pause of retryContended; each is twice the one before.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 32 * firstPause
)

// unavailablePause is the pause of retryUnavailable.
const unavailablePause = 100 * time.Millisecond

// jittered returns between half and all of a pause, so that concurrent requests are not repeated at the same time.
func jittered(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// doubled returns the next pause while throttled.
func doubled(pause time.Duration) time.Duration { return min(2*pause, 2*lastPause) }

// retryThrottled is a policy, per try, for requests: it repeats a throttled request (429) until the next pause
// would exceed the retry budget.
type retryThrottled struct{ budget time.Duration }

// Do implements policy.Policy.
func (r retryThrottled) Do(req *policy.Request) (*http.Response, error) {
	window := scopeOf(req.Raw().Context()).retryWindow
	if window == unlimitedWindow {
		return req.Next() // azcore repeats it: here the wait would exceed the timeout of the try
	}
	resp, err := req.Next()
	for pause := firstPause; err == nil && resp.StatusCode == http.StatusTooManyRequests; pause = doubled(pause) {
		wait := max(jittered(pause), retryAfter(resp))
		if !window.allows(wait, r.budget) {
			return nil, finalError{runtime.NewResponseError(resp)}
		}
		resp, err = repeat(req, resp, wait)
	}
	return resp, err
}

// retryContended is a policy, per try, for requests and background work. It repeats a write that was
// not executed because of a conflicting concurrent write (449), which azcosmos does not repeat.
type retryContended struct{ budget time.Duration }

// Do implements policy.Policy.
func (r retryContended) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	for pause := firstPause; err == nil && resp.StatusCode == statusRetryWith && pause <= lastPause; pause *= 2 {
		wait := jittered(pause)
		if !scopeOf(req.Raw().Context()).retryWindow.allows(wait, r.budget) {
			break
		}
		resp, err = repeat(req, resp, wait)
	}
	return resp, err
}

// retryUnavailable is a policy, per try, for requests. It repeats a read once for which the service is unavailable
// (503), as while it moves or splits a partition. It is for accounts without Options.Regions, whose reads azcosmos
// does not repeat.
type retryUnavailable struct{ budget time.Duration }

// Do implements policy.Policy.
func (r retryUnavailable) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || isWrite(req.Raw()) {
		return resp, err
	}
	wait := jittered(unavailablePause)
	if !scopeOf(req.Raw().Context()).retryWindow.allows(wait, r.budget) {
		return resp, nil
	}
	return repeat(req, resp, wait)
}

// readTimeout limits a request that reads, so that the next region is read within the deadline of an operation, which
// is 30 s. The service takes at most 5 s for a page of a query ("Azure Cosmos DB service quotas"); as much again is for
// its transfer, which is at most 4 MB.
const readTimeout = 10 * time.Second

// limitReads is a policy, per try and within sessions, that ends a read without a response after readTimeout. Its
// response is then 408, as if the service had given up: azcosmos repeats the read once, in the next region if there
// is one. An error would be repeated in the same region first.
func limitReads(req *policy.Request) (*http.Response, error) {
	if isWrite(req.Raw()) {
		return req.Next()
	}
	ctx, cancel := context.WithTimeout(req.Raw().Context(), readTimeout)
	defer cancel()
	resp, err := req.WithContext(ctx).Next()
	if err == nil {
		_, err = runtime.Payload(resp) // before cancel
	}
	if err != nil && ctx.Err() != nil && req.Raw().Context().Err() == nil {
		body := fmt.Sprintf(`{"code":"RequestTimeout","message":"no response within %s"}`, readTimeout)
		return &http.Response{StatusCode: http.StatusRequestTimeout, Status: "408 " + http.StatusText(http.StatusRequestTimeout), Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req.Raw()}, nil
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// backgroundRetry has azcore repeat a throttled request (429) of background work, after its retry-after
// interval, until its context ends: background work is not urgent, and repeating a page or a scan costs
// more than waiting. Other errors, except those that retryContended repeats, are left to azcosmos and the
// caller, so that an outage is reported without delay.
var backgroundRetry = policy.RetryOptions{
	MaxRetries:    math.MaxInt32 - 1,
	RetryDelay:    100 * time.Millisecond, // doubles each time, without a retry-after
	MaxRetryDelay: time.Minute,
	ShouldRetry: func(resp *http.Response, err error) bool {
		return err == nil && resp.StatusCode == http.StatusTooManyRequests
	},
}

// repeat sends a refused request again after a wait.
func repeat(req *policy.Request, refused *http.Response, wait time.Duration) (*http.Response, error) {
	runtime.Drain(refused)
	if ctx := req.Raw().Context(); !sleep.For(ctx, wait) {
		return nil, finalError{ctx.Err()}
	}
	if err := req.RewindBody(); err != nil {
		return nil, finalError{err}
	}
	return req.Next()
}

// finalError is an error after which azcore does not retry.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// NonRetriable marks the error for azcore.
func (finalError) NonRetriable() {}
