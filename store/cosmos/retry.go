package cosmos

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"byline/store/internal/sleep"
)

// waitWhileThrottled repeats a throttled request (429), after its retry-after interval, until its context
// ends: background work is not urgent, and repeating a page or a scan costs more than waiting. Other
// errors, except those that retryContended repeats, are left to azcosmos and the caller, so that an
// outage is reported without delay.
var waitWhileThrottled = policy.RetryOptions{
	MaxRetries:    math.MaxInt32 - 1,
	RetryDelay:    100 * time.Millisecond, // doubles each time, without a retry-after
	MaxRetryDelay: time.Minute,
	ShouldRetry: func(resp *http.Response, err error) bool {
		return err == nil && resp.StatusCode == http.StatusTooManyRequests
	},
}

// WithUnlimitedRetries returns a context whose requests are repeated until it ends, while they are throttled or
// fail with a transient error: for work before the program serves requests.
func WithUnlimitedRetries(ctx context.Context) context.Context {
	return policy.WithRetryOptions(withRetries(ctx, unlimitedRetries), policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
}

func withRetries(ctx context.Context, t *retryWindow) context.Context {
	s := scopeOf(ctx)
	s.retries = t
	return context.WithValue(ctx, scopeKey{}, s)
}

// withRetryBudget returns a context whose requests share the retry window of their operation, or have one
// of their own without an operation.
func withRetryBudget(ctx context.Context) context.Context {
	if scopeOf(ctx).retries != nil {
		return ctx
	}
	return withRetries(ctx, &retryWindow{})
}

// withUnlimitedRetries returns a context for background work: it ignores the retry window of an operation.
func withUnlimitedRetries(ctx context.Context) context.Context {
	return withRetries(ctx, unlimitedRetries)
}

// retryBudget is the default of Options.RetryBudget.
const retryBudget = 2 * time.Second

// retryWindow is the time in which the requests of an operation may retry. It begins with the first
// pause, whatever the reason.
type retryWindow struct{ began atomic.Int64 } // Unix nanoseconds, 0 before

// unlimitedRetries is the window of background work, and of WithUnlimitedRetries.
var unlimitedRetries = &retryWindow{}

// noRetries is a window that is over.
var noRetries = func() *retryWindow {
	t := &retryWindow{}
	t.began.Store(1)
	return t
}()

// WithoutRetries returns a context whose requests do not wait: neither while throttled, nor after
// conflicting concurrent writes, nor for replicas.
func WithoutRetries(ctx context.Context) context.Context { return withRetries(ctx, noRetries) }

// allows reports whether a pause ends within a budget.
func (t *retryWindow) allows(pause, budget time.Duration) bool {
	if t == unlimitedRetries {
		return true
	}
	now := time.Now().UnixNano()
	t.began.CompareAndSwap(0, now)
	return now+int64(pause) <= t.began.Load()+int64(budget)
}

// throttled is a policy, per try, for requests: it repeats a throttled request (429) until the next pause
// would exceed the retry budget.
type throttled struct{ budget time.Duration }

// Do implements policy.Policy.
func (t throttled) Do(req *policy.Request) (*http.Response, error) {
	retries := scopeOf(req.Raw().Context()).retries
	if retries == unlimitedRetries {
		return req.Next() // azcore repeats it: here the wait would exceed the timeout of the try
	}
	resp, err := req.Next()
	for pause := firstPause; err == nil && resp.StatusCode == http.StatusTooManyRequests; pause = doubled(pause) {
		wait := max(jittered(pause), retryAfter(resp))
		if !retries.allows(wait, t.budget) {
			return nil, finalError{runtime.NewResponseError(resp)}
		}
		resp, err = repeat(req, resp, wait)
	}
	return resp, err
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

// doubled returns the next pause while throttled.
func doubled(pause time.Duration) time.Duration { return min(2*pause, 2*lastPause) }
