package changefeed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// A process that is repeatedly killed a second after it took the lease makes progress each time, although
// a page takes longer than that.
func TestProcessor_ProgressesWhileKilled(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		const changes, lives = 1000, 8
		left := int64(changes)
		all := ids("change", changes)
		w.write(all...)
		for life := range lives {
			process := w.process()
			ctx, kill := context.WithCancel(t.Context())
			p, err := changefeed.New(process.source, process.leases, func(ctx context.Context, items [][]byte) error {
				for _, item := range items { // 5 ms each: a page of 1,000 takes longer than a process lives
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(5 * time.Millisecond):
					}
					if err := w.handle(ctx, [][]byte{item}); err != nil {
						return err
					}
				}
				return nil
			}, changefeed.Options{Name: "test", Owner: fmt.Sprint("life ", life), MaxItems: changes,
				Expiry: 3 * time.Second, PollInterval: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			pass(4 * time.Second)
			process.intercept(unavailable) // so that it cannot release its lease
			kill()
			wg.Wait()
			status, err := changefeed.Status(t.Context(), w.source, w.leases, "test")
			if err != nil {
				t.Fatal(err)
			}
			if lag := status[0].Lag; lag > max(0, left-100) {
				t.Fatalf("after process %d, %d changes are left, %d before it", life, lag, left)
			}
			left = status[0].Lag
		}
		if n := len(w.handled()); n != changes {
			t.Errorf("got %d handled changes, want %d", n, changes)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.seen); n > 2*changes {
			t.Errorf("%d changes were handled %d times, want at most twice each", changes, n)
		}
	})
}

// handled returns the distinct items that were handled.
func (w *world) handled() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]bool{}
	for _, id := range w.seen {
		all[id] = true
	}
	return all
}

// A failed page is retried in smaller pages, which grow again.
func TestProcessor_SmallerPagesAfterAFailure(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write(ids("change", 700)...)
		var mu sync.Mutex
		var sizes []int   // guarded by mu
		failing := 0      // guarded by mu
		repeated := false // guarded by mu
		w.runWith(w.client, func(ctx context.Context, items [][]byte) error {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(items))
			if len(items) > 100 && failing < 1 { // the first large page
				failing++
				return errors.New("not now")
			}
			repeated = repeated || failing == 1 && changefeed.Repeated(ctx)
			return w.handle(ctx, items)
		}, changefeed.Options{Name: "test", Owner: "one", MaxItems: 1000, PollInterval: time.Millisecond})
		w.wait(func() bool { return len(w.handled()) == 700 })
		mu.Lock()
		defer mu.Unlock()
		want := []int{100, 200, 20, 40, 80, 160, 300}
		if fmt.Sprint(sizes) != fmt.Sprint(want) {
			t.Errorf("got pages of %v, want %v", sizes, want)
		}
		if !repeated {
			t.Error("Repeated is false after a failed page")
		}
	})
}

// A failed read, unlike a failed handler, does not change the size of pages.
func TestProcessor_SamePagesAfterAFailedRead(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write(ids("change", 300)...)
		var mu sync.Mutex
		var sizes []int // guarded by mu
		var reads atomic.Int64
		process := w.process()
		process.intercept(func(r *http.Request) *http.Response {
			if r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/docs") && reads.Add(1) == 2 {
				return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Header: http.Header{}}
			}
			return nil
		})
		w.runWith(process, func(ctx context.Context, items [][]byte) error {
			mu.Lock()
			sizes = append(sizes, len(items))
			mu.Unlock()
			return w.handle(ctx, items)
		}, changefeed.Options{Name: "test", Owner: "one", MaxItems: 1000, PollInterval: time.Millisecond})
		w.wait(func() bool { return len(w.handled()) == 300 })
		mu.Lock()
		defer mu.Unlock()
		if want := []int{100, 200}; fmt.Sprint(sizes) != fmt.Sprint(want) {
			t.Errorf("got pages of %v, want %v", sizes, want)
		}
	})
}

// TestProcessor_Settle: after a page with changes, the next waits for Settle, unless Hurry is set. Wake has no
// effect then.
func TestProcessor_Settle(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		var wake, hurry changefeed.Signal
		w.runWith(w.client, w.handle,
			changefeed.Options{Name: "test", Owner: "one", PollInterval: 100 * time.Millisecond,
				IdleInterval: 10 * time.Second, Settle: time.Second,
				Wake: &wake, Hurry: &hurry})
		handled := func(after time.Duration, want string) {
			t.Helper()
			pass(after)
			if have := w.have(); have != want {
				t.Errorf("handled %q, want %q", have, want)
			}
		}
		pass(time.Minute)
		w.write("a")
		wake.Set()
		handled(100*time.Millisecond, "a")
		w.write("b")
		wake.Set()
		handled(800*time.Millisecond, "a")
		handled(200*time.Millisecond, "a b")
		w.write("c")
		hurry.Set()
		handled(100*time.Millisecond, "a b c")
	})
}

// A page that Cosmos DB ends early, before MaxItems and 2 MB, is followed by the next one at once.
func TestProcessor_ShortPages(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		written := ids("a", 20)
		w.write(written...)
		w.client.intercept(func(r *http.Request) *http.Response {
			if r.Header.Get("A-Im") != "" {
				r.Header.Set("X-Ms-Max-Item-Count", "1")
			}
			return nil
		})
		w.runWith(w.client, w.handle, changefeed.Options{Name: "test", Owner: "one", PollInterval: time.Second})
		pass(3 * time.Second)
		if !w.all(written) {
			t.Errorf("handled only %s in three seconds", w.have())
		}
	})
}
