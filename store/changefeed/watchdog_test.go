package changefeed_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// A process whose lease writes fail stops working before its lease expires for others, and another process
// takes it over soon after the expiry.
func TestWatchdog_StopsBeforeExpiry(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	const expiry = 3 * time.Second
	for name, c := range map[string]struct {
		after time.Duration // the first write after this is the last that succeeds
		slow  time.Duration // delay of its response
	}{
		"last write renews":                         {after: 10 * expiry},
		"last write renews, slow response":          {after: 10 * expiry, slow: 2 * time.Second},
		"last write takes the lease":                {},
		"last write takes the lease, slow response": {slow: 2 * time.Second},
	} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.write("a")
			began := time.Now()
			var mu sync.Mutex
			var last time.Time // guarded by mu; time of the last successful write
			cut, f := w.process(), fences{t: t}
			cut.intercept(func(r *http.Request) *http.Response {
				if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/colls/leases/") ||
					time.Since(began) < c.after {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if !last.IsZero() {
					return unavailable(r)
				}
				last = time.Now()
				resp, err := w.account.Transport.Do(r)
				if err != nil {
					return unavailable(r)
				}
				pass(c.slow)
				return resp
			})
			ended, taken := make(chan time.Time, 1), make(chan time.Time, 1)
			w.runOn(cut, "one", f.handle(func(ctx context.Context, items [][]byte) error {
				<-ctx.Done()
				ended <- time.Now()
				if cause := context.Cause(ctx); !errors.Is(cause, changefeed.ErrLeaseLost) {
					t.Errorf("the handler's context ended with %v, want %v", cause, changefeed.ErrLeaseLost)
				}
				return nil
			}), expiry)
			pass(time.Millisecond) // so that one takes the lease first
			w.runOn(w.process(), "two", f.handle(func(ctx context.Context, items [][]byte) error {
				taken <- time.Now()
				return w.handle(ctx, items)
			}), expiry)
			took := testkit.Receive(t, taken)
			var stopped time.Time
			select {
			case stopped = <-ended:
			case <-time.After(10 * expiry):
				t.Fatal("the handler was not canceled without the lease")
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("renewed at %v, stopped after %v, taken after %v", last.Sub(began), stopped.Sub(last),
				took.Sub(last))
			if stopped.Sub(last) > expiry {
				t.Errorf("stopped %v after the last write of the lease, want at most %v", stopped.Sub(last), expiry)
			}
			if took.Before(stopped) {
				t.Errorf("taken %v before the old owner stopped", stopped.Sub(took))
			}
			if took.Sub(last) > expiry+expiry/2 {
				t.Errorf("taken %v after the last write of the lease, want at most %v", took.Sub(last), expiry+expiry/2)
			}
		})
	}
}
