package changefeed_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// wireWithIDs is mergeable.wire, but the session tokens of change feed pages have the id of the shown range.
func (m mergeable) wireWithIDs(w *world) func(*http.Request) *http.Response {
	wire := m.wire(w, nil)
	return func(r *http.Request) *http.Response {
		id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid")
		if resp := wire(r); resp != nil || id == "" {
			return resp
		}
		resp, err := w.account.Transport.Do(r)
		if err != nil {
			return unavailable(r)
		}
		if _, at, ok := strings.Cut(resp.Header.Get("X-Ms-Session-Token"), ":"); ok {
			resp.Header.Set("X-Ms-Session-Token", id+":"+at)
		}
		return resp
	}
}

// A split or a merge is processed within seconds, without waiting for the next rebalance: by a process that
// holds all leases, and by two that share them.
func TestChangedRanges_DetectedByPages(t *testing.T) {
	options := func(owner string) changefeed.Options {
		return changefeed.Options{Name: "test", Owner: owner, PollInterval: time.Second, Expiry: time.Minute}
	}
	inFiveSeconds := func(w *world, n int) {
		w.t.Helper()
		began := time.Now()
		w.waitRanges(n)
		if took := time.Since(began); took > 5*time.Second {
			w.t.Errorf("the leases changed after %v, want at most 5 s", took)
		}
		more := ids(time.Now().Format("150405-"), 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
	}
	for name, processes := range map[string]int{"one process": 1, "two processes": 2} {
		run(t, "merge, "+name, func(t *testing.T) {
			cosmostest.NeedsEngine(t, whyMerge)
			w := newWorld(t)
			f, m := fences{t: t}, mergeable{new(atomic.Bool)}
			w.write(ids("a", 20)...)
			for _, owner := range []string{"one", "two"}[:processes] {
				c := w.process()
				c.intercept(m.wireWithIDs(w))
				w.runWith(c, f.handle(w.handle), options(owner))
				w.wait(func() bool { return w.all(ids("a", 20)) })
			}
			pass(4 * time.Minute)
			if n := len(w.owners()); n != processes {
				t.Fatalf("%d processes have leases, want %d", n, processes)
			}
			m.merged.Store(true)
			inFiveSeconds(w, 1)
		})
		run(t, "split, "+name, func(t *testing.T) {
			cosmostest.NeedsEngine(t, whySplit)
			w := newWorld(t)
			w.needRanges(2, 2)
			f := fences{t: t}
			w.write(ids("a", 20)...)
			for _, owner := range []string{"one", "two"}[:processes] {
				w.runWith(w.process(), f.handle(w.handle), options(owner))
				w.wait(func() bool { return w.all(ids("a", 20)) })
			}
			pass(4 * time.Minute)
			if n := len(w.owners()); n != processes {
				t.Fatalf("%d processes have leases, want %d", n, processes)
			}
			w.split()
			inFiveSeconds(w, 4)
		})
	}
}
