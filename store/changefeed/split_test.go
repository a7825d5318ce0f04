package changefeed_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

func TestSplit_PartsProcessed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		f := fences{t: t}
		w.run("one", f.handle(w.handle), clusterExpiry)
		w.runOn(w.process(), "two", f.handle(w.handle), clusterExpiry)
		var written []string
		for round := range 3 {
			more := ids(fmt.Sprintf("r%d-", round), 30)
			w.write(more...)
			written = append(written, more...)
			w.split()
			w.wait(func() bool { return w.all(written) })
			w.waitRanges(2 << round)
		}
		if n := len(strings.Fields(w.have())); n > 2*len(written) {
			t.Errorf("%d changes were handled %d times: the parts do not inherit the continuation", len(written), n)
		}
	})
}

// lateProcess runs a processor that lists no leases, and pauses before it creates the first one until resume
// is called.
func (w *world) lateProcess(wire func(*http.Request) *http.Response, handle changefeed.Handler) (resume func()) {
	w.t.Helper()
	late := w.process()
	creates, resumed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	late.intercept(func(r *http.Request) *http.Response {
		query := strings.Contains(r.Header.Get("Content-Type"), "query")
		if r.Method == http.MethodPost && !query && strings.Contains(r.URL.Path, "/colls/leases/") {
			once.Do(func() {
				close(creates)
				select {
				case <-resumed:
				case <-r.Context().Done():
				}
			})
		}
		if wire != nil {
			return wire(r)
		}
		return nil
	})
	w.runOn(late, "late", handle, clusterExpiry)
	testkit.Receive(w.t, creates)
	return func() { close(resumed) }
}

// A process creates a lease after another has created, processed and split the same one: no process works on
// it again in the old generation.
func TestComplete_SplitMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		f := fences{t: t}
		first := ids("a", 20)
		w.write(first...)
		resume := w.lateProcess(nil, f.handle(w.handle))
		w.run("one", f.handle(w.handle), clusterExpiry)
		w.wait(func() bool { return w.all(first) })
		w.checkpoint()
		w.split()
		w.waitRanges(2)
		before := len(strings.Fields(w.have()))
		resume()
		w.wait(func() bool { return w.owners()["late"] == 1 })
		w.waitRanges(2)
		if n := len(strings.Fields(w.have())) - before; n > 4 {
			t.Errorf("%d changes were handled again, want at most 4", n)
		}
		more := ids("b", 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
	})
}

// A process creates a lease after another has merged it with others.
func TestComplete_MergedMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w := newWorld(t)
		f, m := fences{t: t}, mergeable{new(atomic.Bool)}
		first := ids("a", 20)
		w.write(first...)
		resume := w.lateProcess(m.wire(w, nil), f.handle(w.handle))
		one := w.process()
		one.intercept(m.wire(w, nil))
		w.runOn(one, "one", f.handle(w.handle), clusterExpiry)
		w.wait(func() bool { return w.all(first) && len(w.leaseItems()) == 2 })
		w.wait(func() bool {
			return !slices.ContainsFunc(w.leaseItems(), func(v leaseItem) bool { return v.Continuation == "" })
		})
		m.merged.Store(true)
		w.waitRanges(1)
		before := len(strings.Fields(w.have()))
		resume()
		more := ids("b", 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
		pass(2 * clusterExpiry) // about six rebalances
		w.waitRanges(1)
		if n := len(strings.Fields(w.have())) - before; n > 24 {
			t.Errorf("20 changes were handled %d times, want at most 24", n)
		}
	})
}

// crashAfter simulates a crash: after n lease creations and removals all requests fail.
func (c *client) crashAfter(n int64) (crashed *atomic.Bool) {
	crashed = new(atomic.Bool)
	var count atomic.Int64
	c.intercept(func(r *http.Request) *http.Response {
		if crashed.Load() {
			return unavailable(r)
		}
		query := strings.Contains(r.Header.Get("Content-Type"), "query")
		step := r.Method == http.MethodPost && !query || r.Method == http.MethodDelete
		if step && strings.Contains(r.URL.Path, "/colls/leases/") && count.Add(1) > n {
			crashed.Store(true)
			return unavailable(r)
		}
		return nil
	})
	return crashed
}

func TestSplit_CrashAtEachStep(t *testing.T) {
	cosmostest.NeedsEngine(t, whySplit)
	// The leases of two parts are created, then that of the whole is removed.
	for n := range int64(3) {
		run(t, fmt.Sprintf("after %d steps", n), func(t *testing.T) {
			w := newWorld(t)
			f := fences{t: t}
			first := ids("a", 20)
			w.write(first...)
			process := w.process()
			stop := w.runOn(process, "one", f.handle(w.handle), clusterExpiry)
			w.wait(func() bool { return w.all(first) })
			w.checkpoint()
			crashed := process.crashAfter(n)
			w.split()
			w.wait(crashed.Load)
			stop()
			if have := len(w.leaseItems()); have != int(n)+1 {
				t.Fatalf("got %d leases after the crash, want %d", have, n+1)
			}
			more := ids("b", 20)
			w.write(more...)
			w.runOn(w.process(), "two", f.handle(w.handle), clusterExpiry)
			w.wait(func() bool { return w.all(more) })
			w.waitRanges(2)
			if n := len(strings.Fields(w.have())); n > 80 {
				t.Errorf("40 changes were handled %d times, want at most 80", n)
			}
		})
	}
}

// mergeable shows the only range of the source as two, each with all items, until it is merged.
type mergeable struct{ merged *atomic.Bool }

func (m mergeable) wire(w *world, next func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if next != nil {
			if resp := next(r); resp != nil {
				return resp
			}
		}
		if !strings.Contains(r.URL.Path, "/colls/source/") {
			return nil
		}
		respond := func(status int, body string, header ...string) *http.Response {
			h := http.Header{}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
		}
		merged := m.merged.Load()
		if strings.HasSuffix(r.URL.Path, "/pkranges") {
			etag, rows := `"parts"`,
				`{"id":"7","minInclusive":"","maxExclusive":"1F","parents":[]},{"id":"8","minInclusive":"1F","maxExclusive":"FF","parents":[]}`
			if merged {
				etag, rows = `"whole"`, `{"id":"9","minInclusive":"","maxExclusive":"FF","parents":["7","8"]}`
			}
			if r.Header.Get("If-None-Match") == etag {
				return respond(http.StatusNotModified, "", "Etag", etag)
			}
			return respond(http.StatusOK, `{"_rid":"x","PartitionKeyRanges":[`+rows+`],"_count":1}`, "Etag", etag)
		}
		if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); id != "" {
			if merged != (id == "9") {
				return respond(http.StatusGone, `{"code":"Gone","message":"gone"}`, "x-ms-substatus", "1002")
			}
			r.Header.Set("x-ms-documentdb-partitionkeyrangeid", "0")
		}
		return nil
	}
}

func TestMerge_CrashAtEachStep(t *testing.T) {
	cosmostest.NeedsEngine(t, whyMerge)
	// The lease of the whole is created, then those of two parts are removed.
	for n := range int64(4) {
		run(t, fmt.Sprintf("crash after %d steps", n), func(t *testing.T) {
			w := newWorld(t)
			f, m := fences{t: t}, mergeable{new(atomic.Bool)}
			first := ids("a", 20)
			w.write(first...)
			process, other := w.process(), w.process()
			process.intercept(m.wire(w, nil))
			other.intercept(m.wire(w, nil))
			stop := w.runOn(process, "one", f.handle(w.handle), clusterExpiry)
			w.wait(func() bool { return w.all(first) && len(w.leaseItems()) == 2 })
			crashed := process.crashAfter(n)
			process.mu.Lock()
			crash := process.wire
			process.mu.Unlock()
			process.intercept(m.wire(w, crash))
			m.merged.Store(true)
			more := ids("b", 20)
			w.write(more...)
			if n < 3 {
				w.wait(crashed.Load)
				stop()
				w.runOn(other, "two", f.handle(w.handle), clusterExpiry)
			}
			w.wait(func() bool { return w.all(more) })
			w.waitRanges(1)
			last := ids("c", 5)
			w.write(last...)
			w.wait(func() bool { return w.all(last) })
		})
	}
}

// Two processes hold the parts: the owner of the first takes the other.
func TestMerge_TwoOwners(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w := newWorld(t)
		f, m := fences{t: t}, mergeable{new(atomic.Bool)}
		one, two := w.process(), w.process()
		one.intercept(m.wire(w, nil))
		two.intercept(m.wire(w, nil))
		w.runOn(one, "one", f.handle(w.handle), clusterExpiry)
		w.runOn(two, "two", f.handle(w.handle), clusterExpiry)
		w.wait(func() bool { owners := w.owners(); return owners["one"] == 1 && owners["two"] == 1 })
		m.merged.Store(true)
		more := ids("a", 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
		w.waitRanges(1)
	})
}

// A range was split, its lease was not removed, and its parts were merged again: the leases of the parts are
// removed, regardless of their owner, and changes are handled once.
func TestMerge_LiveLease(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		f := fences{t: t}
		w.run("one", f.handle(w.handle), clusterExpiry)
		w.write(ids("a", 5)...)
		w.wait(func() bool { return w.all(ids("a", 5)) })
		w.checkpoint()
		w.runOn(w.process(), "two", f.handle(w.handle), clusterExpiry)
		for _, part := range [][2]string{{"", "1F"}, {"1F", "FF"}} {
			id := "test." + part[0] + "-" + part[1]
			item := fmt.Sprintf(`{"id":%q,"minInclusive":%q,"maxExclusive":%q,"generation":2}`, id, part[0], part[1])
			if _, err := w.leases.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(id), []byte(item),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		w.waitRanges(1)
		pass(clusterExpiry) // the owners of the parts notice
		w.waitRanges(1)
		before := len(strings.Fields(w.have()))
		w.write(ids("b", 20)...)
		w.wait(func() bool { return w.all(ids("b", 20)) })
		pass(clusterExpiry)
		if n := len(strings.Fields(w.have())) - before; n > 24 {
			t.Errorf("20 changes were handled %d times, want at most 24", n)
		}
	})
}

// 16 ranges, as a container with more than 80,000 RU/s has.
func TestManyRanges(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		for range 4 {
			w.split()
		}
		tailed, h := &world{t: t}, newReplayLog(t)
		w.tail(w.process(), tailed.handle)
		w.run("one", h.handle, clusterExpiry)
		w.write(ids("a", 50)...)
		tailed.wait(func() bool { return tailed.all(ids("a", 50)) })
		w.waitRanges(16)
		w.reset()
		w.wait(func() bool { return h.hasReplayed(ids("a", 50)) && w.toReplay() == 0 })
	})
}

// A range that is merged again before its lease is split keeps the lease.
func TestSplit_Undone(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		stop := w.run("one", w.handle, 0)
		w.write("a")
		w.waitFor("a")
		stop()
		lease := w.checkpoint()
		at := lease["continuation"].(string)
		whole := at[strings.Index(at, `{"min`) : len(at)-2]
		left, right := strings.Replace(whole, `"FF"`, `"1F"`, 1), strings.Replace(whole, `""`, `"1F"`, 1)
		lease["continuation"] = strings.Replace(at, whole, left+","+right, 1)
		item, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.leases.UpsertItem(t.Context(), azcosmos.NewPartitionKeyString(leaseID), item, nil); err != nil {
			t.Fatal(err)
		}
		w.run("one", w.handle, 0)
		w.write("b")
		w.waitFor("a b")
		w.waitRanges(1)
	})
}

// A split whose last step fails is completed, and its parts are processed.
func TestSplit_LastStepFails(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		process := w.process()
		var failed atomic.Bool
		process.intercept(func(r *http.Request) *http.Response {
			if r.Method == http.MethodDelete && failed.CompareAndSwap(false, true) {
				return unavailable(r)
			}
			return nil
		})
		w.runOn(process, "one", w.handle, clusterExpiry)
		w.write("a")
		w.waitFor("a")
		w.split()
		w.write(ids("b", 10)...)
		w.wait(func() bool { return w.all(ids("b", 10)) })
		w.waitRanges(2)
		w.write(ids("c", 10)...)
		w.wait(func() bool { return w.all(ids("c", 10)) })
		if !failed.Load() {
			t.Error("no removal failed: the test is void")
		}
	})
}
