package cosmos

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// defaultRetryBudget is the default of Options.RetryBudget.
const defaultRetryBudget = 2 * time.Second

// retryWindow is the time in which the requests of an operation may retry. It begins with the first
// pause, whatever the reason, and lasts for the retry budget.
type retryWindow struct{ began atomic.Int64 } // Unix nanoseconds, 0 before

// unlimitedWindow is the window of background work, and of WithUnlimitedRetries.
var unlimitedWindow = &retryWindow{}

// closedWindow is a window that is over.
var closedWindow = func() *retryWindow {
	w := &retryWindow{}
	w.began.Store(1)
	return w
}()

// allows reports whether a pause ends within a budget.
func (w *retryWindow) allows(pause, budget time.Duration) bool {
	if w == unlimitedWindow {
		return true
	}
	now := time.Now().UnixNano()
	w.began.CompareAndSwap(0, now)
	return now+int64(pause) <= w.began.Load()+int64(budget)
}

func withRetryWindow(ctx context.Context, w *retryWindow) context.Context {
	s := scopeOf(ctx)
	s.retryWindow = w
	return context.WithValue(ctx, scopeKey{}, s)
}

// ensureRetryWindow returns a context whose requests share the retry window of their operation, or have one
// of their own without an operation.
func ensureRetryWindow(ctx context.Context) context.Context {
	if scopeOf(ctx).retryWindow != nil {
		return ctx
	}
	return withRetryWindow(ctx, &retryWindow{})
}

// ignoreRetryWindow returns a context for background work: it ignores the retry window of an operation.
func ignoreRetryWindow(ctx context.Context) context.Context {
	return withRetryWindow(ctx, unlimitedWindow)
}

// WithoutRetries returns a context whose requests do not wait: neither while throttled, nor after
// conflicting concurrent writes or a refused read, nor for replicas.
func WithoutRetries(ctx context.Context) context.Context { return withRetryWindow(ctx, closedWindow) }

// WithUnlimitedRetries returns a context whose requests are repeated until it ends, while they are throttled or
// fail with a transient error: for work before the program serves requests.
func WithUnlimitedRetries(ctx context.Context) context.Context {
	return policy.WithRetryOptions(withRetryWindow(ctx, unlimitedWindow), policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
}
