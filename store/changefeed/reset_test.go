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

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// handled remembers what came in which generation of which range, and whether it
// was said to come again.
type handled struct {
	t  testing.TB
	mu sync.Mutex

	count    map[string]int  // guarded by mu; by range, generation and item
	again    map[string]bool // guarded by mu; items that came with Replaying
	replayed int             // guarded by mu; pages with Replaying
}

func newHandled(t testing.TB) *handled {
	return &handled{t: t, count: map[string]int{}, again: map[string]bool{}}
}

func (h *handled) handle(ctx context.Context, items [][]byte) error {
	l, ok := changefeed.LeaseOf(ctx)
	if !ok {
		h.t.Error("the handler is not told of its lease")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	replaying := changefeed.Replaying(ctx)
	if replaying {
		h.replayed++
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
			h.again[item.ID] = true
		}
	}
	return nil
}

// came reports whether all of the items came again.
func (h *handled) came(ids []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return !h.again[id] })
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

func TestResetWhileProcessorsRun(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRanges(2, 2)
		h, n := newHandled(t), w.ranges()
		one, two := w.process(), w.process()
		w.runOn(one, "one", h.handle, clusterExpiry)
		w.runOn(two, "two", h.handle, clusterExpiry)
		old := ids("old", 40)
		w.write(old...)
		w.wait(func() bool { c := w.owners(); return c["one"] == n/2 && c["two"] == n/2 })
		unconditional := func(r *http.Request) *http.Response {
			if strings.Contains(r.URL.Path, "/colls/leases/") && r.Method == http.MethodPut && r.Header.Get("If-Match") == "" {
				t.Error("a lease is written without If-Match")
			}
			return nil
		}
		w.answer(unconditional)
		var stop atomic.Bool
		var writing sync.WaitGroup
		defer writing.Wait()
		defer stop.Store(true)
		writing.Go(func() {
			for i := 0; !stop.Load(); i++ {
				pass(time.Millisecond)
				id := fmt.Sprint("meanwhile", i%20)
				if _, err := w.source.UpsertItem(t.Context(), azcosmos.NewPartitionKeyString(id), []byte(`{"id":"`+id+`","pk":"`+id+`"}`), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 2 { // a second time, from wherever it has come
			w.reset()
			w.wait(func() bool { return w.toReplay() == 0 })
			if !h.came(old) {
				t.Fatal("it is over before everything has come again")
			}
			h.mu.Lock()
			clear(h.again)
			h.mu.Unlock()
		}
		stop.Store(true)
		writing.Wait()
		h.mu.Lock()
		before := h.replayed
		h.mu.Unlock()
		w.write("new")
		w.wait(func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.ContainsFunc(slices.Collect(maps.Keys(h.count)), func(s string) bool { return strings.Contains(s, " new@") })
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.replayed != before {
			t.Error("what is new is said to come again")
		}
		for _, v := range w.leaseItems() {
			if v.Generation < 5 { // taken, reset and taken, twice
				t.Errorf("reset twice: %+v", v)
			}
		}
	})
}

// If no processor runs, the next one starts from the beginning. The replay also ends if the feed
// ends with a delete, which it does not show.
func TestResetWhileNobodyRuns(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.reset() // before there is anything
		h := newHandled(t)
		stop := w.run("one", h.handle, clusterExpiry)
		w.write(ids("a", 5)...)
		w.wait(func() bool { all := w.leaseItems(); return len(all) == 1 && all[0].Continuation != "" })
		stop()
		if len(h.again) > 0 {
			t.Errorf("new changes came as if again: %v", h.again)
		}
		w.remove("a4")
		w.reset()
		if n := w.toReplay(); n == 0 {
			t.Error("nothing is left to replay")
		}
		w.run("two", h.handle, clusterExpiry)
		w.wait(func() bool { return w.toReplay() == 0 })
		if !h.came(ids("a", 4)) {
			t.Errorf("only these came again: %v", h.again)
		}
	})
}

// Reset runs just before the owner of a range creates the leases of its parts, or just before it
// removes that of the whole.
func TestResetDuringASplit(t *testing.T) {
	cosmostest.NeedsEngine(t, whySplit)
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		run(t, method, func(t *testing.T) {
			w := newWorld(t)
			h := newHandled(t)
			process := w.process()
			w.runOn(process, "one", h.handle, clusterExpiry)
			old := ids("old", 20)
			w.write(old...)
			w.wait(func() bool { all := w.leaseItems(); return len(all) == 1 && all[0].Continuation != "" })
			var once sync.Once
			var reset atomic.Bool
			process.answer(func(r *http.Request) *http.Response {
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
			if !h.came(old) {
				t.Error("the split has undone the reset")
			}
		})
	}
}

// Reset runs just before the owner of merged ranges lists their leases, creates that of the whole,
// or removes one of a part.
func TestResetDuringAMerge(t *testing.T) {
	cosmostest.NeedsEngine(t, whyMerge)
	for name, moment := range map[string]func(method string, query bool) bool{
		"before the listing":      func(_ string, query bool) bool { return query },
		"before the whole":        func(method string, query bool) bool { return method == http.MethodPost && !query },
		"before a part's removal": func(method string, query bool) bool { return method == http.MethodDelete },
	} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			h := newHandled(t)
			m := mergeable{merged: new(atomic.Bool)}
			process := w.process()
			process.answer(m.wire(w, nil))
			w.answer(m.wire(w, nil))
			w.runOn(process, "one", h.handle, clusterExpiry)
			old := ids("old", 20)
			w.write(old...)
			w.wait(func() bool {
				all := w.leaseItems()
				return len(all) == 2 && all[0].Continuation != "" && all[1].Continuation != ""
			})
			var once sync.Once
			var reset atomic.Bool
			process.answer(m.wire(w, func(r *http.Request) *http.Response {
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
			if !h.came(old) {
				t.Error("the merge has undone the reset")
			}
		})
	}
}

// An owner whose handler is running cannot save its page: the handler's context ends, and the page
// is repeated from the beginning.
func TestResetEndsTheHandler(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.write("a")
		h := newHandled(t)
		begun, ended := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w.run("one", func(ctx context.Context, items [][]byte) error {
			first := false
			once.Do(func() { first = true })
			if first {
				close(begun)
				<-ctx.Done()
				close(ended)
				return nil // as if it had not noticed
			}
			return h.handle(ctx, items)
		}, clusterExpiry)
		<-begun
		w.reset()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the handler goes on")
		}
		w.wait(func() bool { return h.came([]string{"a"}) })
	})
}
