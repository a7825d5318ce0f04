package cosmos

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"byline/store/cosmos/session"
	"byline/store/internal/sleep"
)

// Everything that repeats a request, a batch included (see bodyPolicy), is in this file. What happens depends on how
// the request failed:
//
//	failure                       request                             background work
//	429, throttled                retryThrottled                      backgroundRetry, until its context ends
//	449, conflicting writes       retryContended                      retryContended
//	404/1002, replicas behind     replicaWait                         replicaWait
//	503 of a read                 with Options.Regions azcosmos, in   with Options.Regions azcosmos, in
//	                              the next; else retryUnavailable     the next; else not repeated
//	408 of a read, no response    azcosmos, once, in the next of Options.Regions; see limitReads
//	ambiguous write               not repeated, see failAmbiguous     not repeated
//	other transient errors        azcore, by Options.Retry            not repeated
//	any other status              not repeated                        not repeated
//
// An operation has one retryWindow: it begins with the first pause and lasts for the retry budget. A try is repeated
// only if its pause ends within the window; azcore and azcosmos do not observe it. WithoutRetries sets a window that is
// over. The window of background work never ends; nor does that of WithUnlimitedRetries, which also makes azcore repeat
// throttled requests and other transient errors until the context ends.

// retries returns the policies, per try, that repeat requests, the outermost first.
func retries(budget time.Duration, regions bool) []policy.Policy {
	all := []policy.Policy{retryThrottled{budget}, failAmbiguous{}, retryContended{budget}}
	if !regions { // otherwise azcosmos repeats the read
		all = append(all, retryUnavailable{budget})
	}
	return all
}

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
		return &http.Response{StatusCode: http.StatusRequestTimeout,
			Status: "408 " + http.StatusText(http.StatusRequestTimeout), Header: http.Header{},
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

// failAmbiguous is a policy, per try, for requests. A write whose outcome is unknown (a broken
// connection, a gateway timeout) is ambiguous. azcore would repeat it; this policy returns a final error:
// an increment could count twice, and a condition that held the first time could fail. The caller reads
// the outcome instead (see Error.Ambiguous).
type failAmbiguous struct{}

// ambiguous are the statuses after which the outcome of a write is unknown.
var ambiguous = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// Do implements policy.Policy.
func (failAmbiguous) Do(req *policy.Request) (*http.Response, error) {
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

const (
	// A read that no replica can serve yet is repeated, after a pause that doubles.
	firstReplicaPause = 5 * time.Millisecond
	maxReplicaWait    = time.Second // sum of the pauses of an operation
)

// replicaWait limits the time that the reads of an operation together wait for replicas to reach their
// session tokens, within the retry window of the operation. One read polls; the others wait for it.
type replicaWait struct {
	slot chan struct{}

	left, pause time.Duration // owned by the holder of slot

	mu          sync.Mutex
	unreachable map[targetToken]bool // guarded by mu; tokens that no replica has reached
}

type targetToken struct{ container, token string }

func newReplicaWait() *replicaWait {
	return &replicaWait{slot: make(chan struct{}, 1), left: maxReplicaWait, pause: firstReplicaPause}
}

// replicaWaitOf returns the replicaWait of the operation of ctx, or a new one without an operation.
func replicaWaitOf(ctx context.Context) *replicaWait {
	if in, ok := ctx.Value(sessionKey{}).(*sessionScope); ok {
		return in.wait
	}
	return newReplicaWait()
}

// acquire waits for the slot. It reports false if ctx ends first.
func (w *replicaWait) acquire(ctx context.Context) bool {
	select {
	case w.slot <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// retry repeats a request until a replica has reached its token, or the time is over.
func (w *replicaWait) retry(
	ctx context.Context, budget time.Duration, resp *http.Response, send func() (*http.Response, error),
) (*http.Response, error) {
	select {
	case w.slot <- struct{}{}:
	default: // another read polls, perhaps for the same token
		if !w.acquire(ctx) {
			return resp, nil
		}
		over := w.left < w.pause
		<-w.slot
		if over {
			return resp, nil
		}
		if again, err := send(); err != nil || !session.IsBehind(again) {
			return again, err
		}
		if !w.acquire(ctx) {
			return resp, nil
		}
	}
	defer func() { <-w.slot }()
	for w.left >= w.pause {
		if !scopeOf(ctx).retryWindow.allows(w.pause, budget) {
			w.left = 0
			break
		}
		if !sleep.For(ctx, w.pause) {
			break
		}
		w.left, w.pause = w.left-w.pause, 2*w.pause
		if again, err := send(); err != nil || !session.IsBehind(again) {
			return again, err
		}
	}
	return resp, nil
}

// giveUp records that no replica reaches a token.
func (w *replicaWait) giveUp(at session.Target, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unreachable == nil {
		w.unreachable = map[targetToken]bool{}
	}
	w.unreachable[targetToken{at.Container, token}] = true
}

func (w *replicaWait) unreached(at session.Target, token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreachable[targetToken{at.Container, token}]
}

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
	return policy.WithRetryOptions(withRetryWindow(ctx, unlimitedWindow),
		policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
}
