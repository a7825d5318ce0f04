package changefeed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

func TestThrottling_RetryAfter(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a", "b")
		busy := &azcore.ResponseError{StatusCode: http.StatusTooManyRequests,
			RawResponse: &http.Response{Header: http.Header{"X-Ms-Retry-After-Ms": {"20"}}}}
		var mu sync.Mutex
		var calls []time.Time
		var failures int
		p, err := changefeed.New(w.source, w.leases, func(ctx context.Context, items [][]byte) error {
			mu.Lock()
			defer mu.Unlock()
			if calls = append(calls, time.Now()); len(calls) <= 10 {
				return fmt.Errorf("handle: %w", errors.Join(errors.New("and more"), busy))
			}
			return w.handle(ctx, items)
		}, changefeed.Options{Name: "test", Owner: "one", PollInterval: time.Millisecond,
			Observe: func(p changefeed.Progress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Err != nil {
					failures++
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		w.waitFor("a b")
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Fatal(err)
		}
		if failures != 10 {
			t.Errorf("observed %d failures, want 10", failures)
		}
		for i := 1; i <= 10; i++ { // later pages are smaller, and not delayed
			if d := calls[i].Sub(calls[i-1]); d < 20*time.Millisecond {
				t.Errorf("call %d came after %v, want at least 20 ms", i, d)
			}
		}
		// With growing waits, ten failures would take more than ten seconds.
		if d := calls[len(calls)-1].Sub(calls[0]); d > 5*time.Second {
			t.Errorf("ten pauses of 20 ms took %v, want at most 5 s", d)
		}
	})
}

// A page whose handler always fails blocks only its own range, and is never skipped.
func TestHandler_PoisonItem(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRanges(2, 2)
		var mu sync.Mutex
		tries, poison := 0, ""
		w.write(ids("a", 20)...)
		w.run("one", func(ctx context.Context, items [][]byte) error {
			l, _ := changefeed.LeaseOf(ctx)
			mu.Lock()
			defer mu.Unlock()
			if poison == "" {
				poison = l.Range.MinInclusive + "-"
			}
			if l.Range.MinInclusive+"-" == poison {
				tries++
				return errors.New("poison")
			}
			return w.handle(ctx, items)
		}, clusterExpiry)
		w.wait(func() bool { mu.Lock(); defer mu.Unlock(); return tries >= 3 && w.have() != "" })
		for _, v := range w.leaseItems() {
			if v.MinInclusive+"-" == poison && v.Continuation != "" {
				t.Errorf("the checkpoint is past an unhandled page: %+v", v)
			}
		}
	})
}
