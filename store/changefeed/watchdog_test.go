package changefeed_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// A process whose lease writes fail stops working before another can consider its lease expired,
// and the other continues as soon as it can.
func TestWatchdog_StopsBeforeExpiry(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	const expiry = 3 * time.Second
	for name, c := range map[string]struct {
		after time.Duration // the first write after it is the last that succeeds
		slow  time.Duration // and its answer takes so long
	}{
		"last is a renewal":                      {after: 10 * expiry},
		"last is a renewal with a slow answer":   {after: 10 * expiry, slow: 2 * time.Second},
		"last is the taking":                     {},
		"last is the taking, with a slow answer": {slow: 2 * time.Second},
	} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.write("a")
			began := time.Now()
			var mu sync.Mutex
			var last time.Time // guarded by mu; when the last write got through
			cut, f := w.process(), fences{t: t}
			cut.answer(func(r *http.Request) *http.Response {
				if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/colls/leases/") || time.Since(began) < c.after {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if !last.IsZero() {
					return dead(r)
				}
				last = time.Now()
				answer, err := w.account.Transport.Do(r)
				if err != nil {
					return dead(r)
				}
				pass(c.slow)
				return answer
			})
			ended, taken := make(chan time.Time, 1), make(chan time.Time, 1)
			w.runOn(cut, "one", f.handle(func(ctx context.Context, items [][]byte) error {
				<-ctx.Done()
				ended <- time.Now()
				if cause := context.Cause(ctx); !errors.Is(cause, changefeed.ErrLeaseLost) {
					t.Errorf("the handler's context ended with %v", cause)
				}
				return nil
			}), expiry)
			pass(time.Millisecond) // it has the lease, and another has not
			w.runOn(w.process(), "two", f.handle(func(ctx context.Context, items [][]byte) error {
				taken <- time.Now()
				return w.handle(ctx, items)
			}), expiry)
			took := <-taken
			var stopped time.Time
			select {
			case stopped = <-ended:
			case <-time.After(10 * expiry):
				t.Fatal("the work goes on without the lease")
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("renewed at %v, stopped after %v, taken after %v", last.Sub(began), stopped.Sub(last), took.Sub(last))
			if stopped.Sub(last) > expiry {
				t.Errorf("works on for %v after the last write of the lease", stopped.Sub(last))
			}
			if took.Before(stopped) {
				t.Errorf("taken %v before the other stopped", stopped.Sub(took))
			}
			if took.Sub(last) > expiry+expiry/2 {
				t.Errorf("taken only %v after the last write of the lease", took.Sub(last))
			}
		})
	}
}
