package changefeed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// replayLog records which changes were handled in which generation of which range, and which of them were
// replayed. A change must not be handled twice in a generation.
type replayLog struct {
	t  testing.TB
	mu sync.Mutex

	count         map[string]int  // guarded by mu; by range, generation and item
	replayed      map[string]bool // guarded by mu; items handled while Replaying
	replayedPages int             // guarded by mu; pages handled while Replaying
}

func newReplayLog(t testing.TB) *replayLog {
	return &replayLog{t: t, count: map[string]int{}, replayed: map[string]bool{}}
}

func (h *replayLog) handle(ctx context.Context, items [][]byte) error {
	l, ok := changefeed.LeaseOf(ctx)
	if !ok {
		h.t.Error("the handler's context has no lease")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	replaying := changefeed.Replaying(ctx)
	if replaying {
		h.replayedPages++
	}
	for _, raw := range items {
		var item struct {
			ID  string
			LSN int64 `json:"_lsn"`
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			h.t.Error(err)
		}
		change := fmt.Sprint(l.Range, " generation ", l.Generation, " ", item.ID, "@", item.LSN)
		if h.count[change]++; h.count[change] > 1 {
			h.t.Errorf("%s was handled twice", change)
		}
		if replaying {
			h.replayed[item.ID] = true
		}
	}
	return nil
}

// hasReplayed reports whether all of the items were replayed.
func (h *replayLog) hasReplayed(ids []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return !h.replayed[id] })
}

func (w *world) reset() {
	w.t.Helper()
	if err := changefeed.Reset(context.Background(), w.source, w.leases, "test"); err != nil {
		w.t.Error(err)
	}
}

// toReplay returns how many transactions are left to replay after Reset.
func (w *world) toReplay() (n int64) {
	w.t.Helper()
	all, err := changefeed.Status(w.t.Context(), w.source, w.leases, "test")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range all {
		n += s.Replay
	}
	return n
}

func TestReset_RunningProcessors(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRanges(2, 2)
		h, n := newReplayLog(t), w.ranges()
		one, two := w.process(), w.process()
		w.runOn(one, "one", h.handle, clusterExpiry)
		w.runOn(two, "two", h.handle, clusterExpiry)
		old := ids("old", 40)
		w.write(old...)
		w.wait(func() bool { c := w.owners(); return c["one"] == n/2 && c["two"] == n/2 })
		unconditional := func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "/colls/leases/") && r.Method == http.MethodPut &&
				r.Header.Get("If-Match") == "" {
				t.Error("a lease is written without If-Match")
			}
			return nil
		}
		w.intercept(unconditional)
		var stop atomic.Bool
		var writing sync.WaitGroup
		defer writing.Wait()
		defer stop.Store(true)
		writing.Go(func() {
			for i := 0; !stop.Load(); i++ {
				pass(time.Millisecond)
				id := fmt.Sprint("meanwhile", i%20)
				if _, err := w.source.UpsertItem(t.Context(), azcosmos.NewPartitionKeyString(id),
					[]byte(`{"id":"`+id+`","pk":"`+id+`"}`), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 2 { // the second reset finds other positions
			w.reset()
			w.wait(func() bool { return w.toReplay() == 0 })
			if !h.hasReplayed(old) {
				t.Fatal("the replay ended before all items were replayed")
			}
			h.mu.Lock()
			clear(h.replayed)
			h.mu.Unlock()
		}
		stop.Store(true)
		writing.Wait()
		h.mu.Lock()
		before := h.replayedPages
		h.mu.Unlock()
		w.write("new")
		w.wait(func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.ContainsFunc(slices.Collect(maps.Keys(h.count)), func(s string) bool {
				return strings.Contains(s, " new@")
			})
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.replayedPages != before {
			t.Error("Replaying is true for a new change")
		}
		for _, v := range w.leaseItems() {
			if v.Generation < 5 { // taken, reset and taken, twice
				t.Errorf("got lease %+v, want generation 5 or higher after two resets", v)
			}
		}
	})
}

// If no processor runs, the next one starts at the beginning. The replay also ends if the last change is a
// delete, which the feed does not show.
func TestReset_NoProcessor(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.reset() // of an empty feed without leases
		h := newReplayLog(t)
		stop := w.run("one", h.handle, clusterExpiry)
		w.write(ids("a", 5)...)
		w.wait(func() bool { all := w.leaseItems(); return len(all) == 1 && all[0].Continuation != "" })
		stop()
		if len(h.replayed) > 0 {
			t.Errorf("Replaying was true for new changes: %v", h.replayed)
		}
		w.remove("a4")
		w.reset()
		if n := w.toReplay(); n == 0 {
			t.Error("nothing is left to replay")
		}
		w.run("two", h.handle, clusterExpiry)
		w.wait(func() bool { return w.toReplay() == 0 })
		if !h.hasReplayed(ids("a", 4)) {
			t.Errorf("only these were replayed: %v", h.replayed)
		}
	})
}

// Reset runs just before the owner of a range creates the leases of its parts, or just before it removes
// the lease of the whole.
func TestReset_DuringSplit(t *testing.T) {
	cosmostest.NeedsEngine(t, whySplit)
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		run(t, method, func(t *testing.T) {
			w := newWorld(t)
			h := newReplayLog(t)
			process := w.process()
			w.runOn(process, "one", h.handle, clusterExpiry)
			old := ids("old", 20)
			w.write(old...)
			w.wait(func() bool { all := w.leaseItems(); return len(all) == 1 && all[0].Continuation != "" })
			var once sync.Once
			var reset atomic.Bool
			process.intercept(func(r *http.Request) *http.Response {
				query := strings.Contains(r.Header.Get("Content-Type"), "query")
				if r.Method == method && !query && strings.Contains(r.URL.Path, "/colls/leases/") {
					once.Do(func() { w.reset(); reset.Store(true) })
				}
				return nil
			})
			w.split()
			w.write("poke")
			w.wait(reset.Load)
			w.waitRanges(2)
			w.wait(func() bool { return w.toReplay() == 0 })
			if !h.hasReplayed(old) {
				t.Error("the split undid the reset: not all items were replayed")
			}
		})
	}
}

// Reset runs just before the owner of merged ranges lists their leases, creates the lease of the whole, or
// removes the lease of a part.
func TestReset_DuringMerge(t *testing.T) {
	cosmostest.NeedsEngine(t, whyMerge)
	for name, moment := range map[string]func(method string, query bool) bool{
		"before the listing":      func(_ string, query bool) bool { return query },
		"before the whole":        func(method string, query bool) bool { return method == http.MethodPost && !query },
		"before a part's removal": func(method string, query bool) bool { return method == http.MethodDelete },
	} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			h := newReplayLog(t)
			m := mergeable{merged: new(atomic.Bool)}
			process := w.process()
			process.intercept(m.wire(w, nil))
			w.intercept(m.wire(w, nil))
			w.runOn(process, "one", h.handle, clusterExpiry)
			old := ids("old", 20)
			w.write(old...)
			w.wait(func() bool {
				all := w.leaseItems()
				return len(all) == 2 && all[0].Continuation != "" && all[1].Continuation != ""
			})
			var once sync.Once
			var reset atomic.Bool
			process.intercept(m.wire(w, func(r *http.Request) *http.Response {
				query := strings.Contains(r.Header.Get("Content-Type"), "query")
				if m.merged.Load() && strings.Contains(r.URL.Path, "/colls/leases/") && moment(r.Method, query) {
					once.Do(func() { w.reset(); reset.Store(true) })
				}
				return nil
			}))
			m.merged.Store(true)
			w.wait(reset.Load)
			w.waitRanges(1)
			w.wait(func() bool { return w.toReplay() == 0 })
			if !h.hasReplayed(old) {
				t.Error("the merge undid the reset: not all items were replayed")
			}
		})
	}
}

// An owner whose handler is running cannot save its page: the handler's context ends, and the page
// is repeated from the beginning.
func TestReset_CancelsHandler(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.write("a")
		h := newReplayLog(t)
		begun, ended := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w.run("one", func(ctx context.Context, items [][]byte) error {
			first := false
			once.Do(func() { first = true })
			if first {
				close(begun)
				<-ctx.Done()
				close(ended)
				return nil // ignores the cancellation
			}
			return h.handle(ctx, items)
		}, clusterExpiry)
		testkit.Receive(t, begun)
		w.reset()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the handler was not canceled")
		}
		w.wait(func() bool { return h.hasReplayed([]string{"a"}) })
	})
}
