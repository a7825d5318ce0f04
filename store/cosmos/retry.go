package cosmos

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// waitWhileThrottled has a request that is refused with 429 wait as long as Cosmos DB
// asks for, again and again until its context ends: nobody waits for background work,
// and to begin a page or a scan again costs more than to wait. Everything else but what
// retryMet does is left to azcosmos and to the caller, so that an outage shows as soon as it
// would otherwise.
var waitWhileThrottled = policy.RetryOptions{
	MaxRetries:    math.MaxInt32 - 1,
	RetryDelay:    100 * time.Millisecond, // and twice as long each time, if the answer does not say
	MaxRetryDelay: time.Minute,
	ShouldRetry: func(resp *http.Response, err error) bool {
		return err == nil && resp.StatusCode == http.StatusTooManyRequests
	},
}

// WithPatience returns a context whose requests are repeated until it ends, as long as they
// are throttled or fail in a way that may pass: for what is done before there are requests.
func WithPatience(ctx context.Context) context.Context {
	return policy.WithRetryOptions(withRetries(ctx, withoutEnd), policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
}

func withRetries(ctx context.Context, t *retryTime) context.Context {
	s := scopeOf(ctx)
	s.retries = t
	return context.WithValue(ctx, scopeKey{}, s)
}

// withSomeRetries returns a context whose requests have time for retries: that of their operation, or
// their own if they are part of none.
func withSomeRetries(ctx context.Context) context.Context {
	if scopeOf(ctx).retries != nil {
		return ctx
	}
	return withRetries(ctx, &retryTime{})
}

// withEndlessRetries returns a context for background work, which is part of no operation even if its
// context is.
func withEndlessRetries(ctx context.Context) context.Context { return withRetries(ctx, withoutEnd) }

// retryBudget is the default of Options.RetryBudget.
const retryBudget = 2 * time.Second

// retryTime is the time for retries that the requests of an operation share. It begins with the
// first pause, whatever that is for.
type retryTime struct{ began atomic.Int64 } // Unix nanoseconds, 0 before

// withoutEnd is the time for retries of background work, and of what is done with patience.
var withoutEnd = &retryTime{}

// noRetries is a time for retries that is over.
var noRetries = func() *retryTime {
	t := &retryTime{}
	t.began.Store(1)
	return t
}()

// WithoutWaiting returns a context whose requests do not wait while they are throttled, for a write
// that they met, or for replicas.
func WithoutWaiting(ctx context.Context) context.Context { return withRetries(ctx, noRetries) }

// allows reports whether a pause ends within a budget.
func (t *retryTime) allows(pause, budget time.Duration) bool {
	if t == withoutEnd {
		return true
	}
	now := time.Now().UnixNano()
	t.began.CompareAndSwap(0, now)
	return now+int64(pause) <= t.began.Load()+int64(budget)
}

// throttled is a policy, per try, for requests: one that is refused with 429 is sent again, until the
// pause that it is to make exceeds the budget of its context.
type throttled struct{ budget time.Duration }

// Do implements policy.Policy.
func (t throttled) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	retries := scopeOf(ctx).retries
	if retries == withoutEnd {
		return req.Next() // azcore repeats it, as the time for a try would end
	}
	resp, err := req.Next()
	for pause := firstPause; err == nil && resp.StatusCode == http.StatusTooManyRequests; pause = doubled(pause) {
		wait := max(jittered(pause), retryAfter(resp))
		if !retries.allows(wait, t.budget) {
			return nil, finalError{runtime.NewResponseError(resp)}
		}
		runtime.Drain(resp)
		if !sleep(ctx, wait) {
			return nil, finalError{ctx.Err()}
		}
		if err := req.RewindBody(); err != nil {
			return nil, finalError{err}
		}
		resp, err = req.Next()
	}
	return resp, err
}

// doubled is the next pause while throttled.
func doubled(pause time.Duration) time.Duration { return min(2*pause, 2*lastPause) }

// sleep reports whether it slept as long as it should.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
