package cosmos

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// waitWhileThrottled has a request that is refused with 429 wait as long as Cosmos DB
// asks for, again and again until its context ends: nobody waits for background work,
// and to begin a page or a scan again costs more than to wait. Everything else is left
// to azcosmos and to the caller, so that an outage shows as soon as it would otherwise.
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
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
}

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
