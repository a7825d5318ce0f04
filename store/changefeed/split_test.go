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

	"byline/internal/longtest"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

func TestSplitsAreFollowed(t *testing.T) {
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
			t.Errorf("%d changes were handled %d times: the continuations are not inherited", len(written), n)
		}
	})
}

// lateProcess runs a processor that finds no lease, and makes the first that it
// misses after goOn is called.
func (w *world) lateProcess(wire func(*http.Request) *http.Response, handle changefeed.Handler) (goOn func()) {
	w.t.Helper()
	late := w.process()
	makes, made := make(chan struct{}), make(chan struct{})
	var once sync.Once
	late.answer(func(r *http.Request) *http.Response {
		query := strings.Contains(r.Header.Get("Content-Type"), "query")
		if r.Method == http.MethodPost && !query && strings.Contains(r.URL.Path, "/colls/leases/") {
			once.Do(func() {
				close(makes)
				select {
				case <-made:
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
	<-makes
	return func() { close(made) }
}

// A process creates a lease after another has created, processed and split it: no process works on
// it again in its old generation.
func TestComplete_SplitMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		f := fences{t: t}
		first := ids("a", 20)
		w.write(first...)
		goOn := w.lateProcess(nil, f.handle(w.handle))
		w.run("one", f.handle(w.handle), clusterExpiry)
		w.wait(func() bool { return w.all(first) })
		w.checkpoint()
		w.split()
		w.waitRanges(2)
		before := len(strings.Fields(w.have()))
		goOn()
		w.wait(func() bool { return w.owners()["late"] == 1 })
		w.waitRanges(2)
		if n := len(strings.Fields(w.have())) - before; n > 4 {
			t.Errorf("%d changes were handled again", n)
		}
		more := ids("b", 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
	})
}

// The same for leases that were merged.
func TestComplete_MergedMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w := newWorld(t)
		f, m := fences{t: t}, mergeable{new(atomic.Bool)}
		first := ids("a", 20)
		w.write(first...)
		goOn := w.lateProcess(m.wire(w, nil), f.handle(w.handle))
		one := w.process()
		one.answer(m.wire(w, nil))
		w.runOn(one, "one", f.handle(w.handle), clusterExpiry)
		w.wait(func() bool { return w.all(first) && len(w.leaseItems()) == 2 })
		w.wait(func() bool {
			return !slices.ContainsFunc(w.leaseItems(), func(v leaseItem) bool { return v.Continuation == "" })
		})
		m.merged.Store(true)
		w.waitRanges(1)
		before := len(strings.Fields(w.have()))
		goOn()
		more := ids("b", 20)
		w.write(more...)
		w.wait(func() bool { return w.all(more) })
		pass(2 * clusterExpiry) // about six rebalances
		w.waitRanges(1)
		if n := len(strings.Fields(w.have())) - before; n > 24 {
			t.Errorf("20 changes, and %d were handled", n)
		}
	})
}

// crashAfter lets a number of lease creations and removals through, and fails every request after
// that: the process has crashed.
func (c *client) crashAfter(n int64) (crashed *atomic.Bool) {
	crashed = new(atomic.Bool)
	var count atomic.Int64
	c.answer(func(r *http.Request) *http.Response {
		if crashed.Load() {
			return dead(r)
		}
		query := strings.Contains(r.Header.Get("Content-Type"), "query")
		makes := r.Method == http.MethodPost && !query || r.Method == http.MethodDelete
		if makes && strings.Contains(r.URL.Path, "/colls/leases/") && count.Add(1) > n {
			crashed.Store(true)
			return dead(r)
		}
		return nil
	})
	return crashed
}

func TestCrashDuringASplit(t *testing.T) {
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
				t.Fatalf("%d leases after the crash", have)
			}
			more := ids("b", 20)
			w.write(more...)
			w.runOn(w.process(), "two", f.handle(w.handle), clusterExpiry)
			w.wait(func() bool { return w.all(more) })
			w.waitRanges(2)
			if n := len(strings.Fields(w.have())); n > 80 {
				t.Errorf("40 changes were handled %d times", n)
			}
		})
	}
}

// mergeable shows the one range of the source as two, each with all of its items,
// until it is merged.
type mergeable struct{ merged *atomic.Bool }

func (m mergeable) wire(w *world, next func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if next != nil {
			if answer := next(r); answer != nil {
				return answer
			}
		}
		if !strings.Contains(r.URL.Path, "/colls/source/") {
			return nil
		}
		answer := func(status int, body string, header ...string) *http.Response {
			h := http.Header{}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
		}
		merged := m.merged.Load()
		if strings.HasSuffix(r.URL.Path, "/pkranges") {
			etag, rows := `"parts"`, `{"id":"7","minInclusive":"","maxExclusive":"1F","parents":[]},{"id":"8","minInclusive":"1F","maxExclusive":"FF","parents":[]}`
			if merged {
				etag, rows = `"whole"`, `{"id":"9","minInclusive":"","maxExclusive":"FF","parents":["7","8"]}`
			}
			if r.Header.Get("If-None-Match") == etag {
				return answer(http.StatusNotModified, "", "Etag", etag)
			}
			return answer(http.StatusOK, `{"_rid":"x","PartitionKeyRanges":[`+rows+`],"_count":1}`, "Etag", etag)
		}
		if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); id != "" {
			if merged != (id == "9") {
				return answer(http.StatusGone, `{"code":"Gone","message":"gone"}`, "x-ms-substatus", "1002")
			}
			r.Header.Set("x-ms-documentdb-partitionkeyrangeid", "0")
		}
		return nil
	}
}

func TestMergesAreFollowed(t *testing.T) {
	cosmostest.NeedsEngine(t, whyMerge)
	// The lease of the whole is created, then those of two parts are removed.
	for n := range int64(4) {
		run(t, fmt.Sprintf("crash after %d steps", n), func(t *testing.T) {
			w := newWorld(t)
			f, m := fences{t: t}, mergeable{new(atomic.Bool)}
			first := ids("a", 20)
			w.write(first...)
			process, other := w.process(), w.process()
			process.answer(m.wire(w, nil))
			other.answer(m.wire(w, nil))
			stop := w.runOn(process, "one", f.handle(w.handle), clusterExpiry)
			w.wait(func() bool { return w.all(first) && len(w.leaseItems()) == 2 })
			crashed := process.crashAfter(n)
			process.mu.Lock()
			crash := process.wire
			process.mu.Unlock()
			process.answer(m.wire(w, crash))
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
func TestMergeOfRangesOfTwoProcesses(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w := newWorld(t)
		f, m := fences{t: t}, mergeable{new(atomic.Bool)}
		one, two := w.process(), w.process()
		one.answer(m.wire(w, nil))
		two.answer(m.wire(w, nil))
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

// A range was split, its lease was not removed, and its parts were merged again: their leases are
// removed, for any owner, and changes are handled once.
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
			if _, err := w.leases.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(id), []byte(item), nil); err != nil {
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
			t.Errorf("20 changes, and %d were handled", n)
		}
	})
}

// As many ranges as a container has from 80,000 RU/s on.
func TestManyRanges(t *testing.T) {
	longtest.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		for range 4 {
			w.split()
		}
		tailed, h := &world{t: t}, newHandled(t)
		w.tail(w.process(), tailed.handle)
		w.run("one", h.handle, clusterExpiry)
		w.write(ids("a", 50)...)
		tailed.wait(func() bool { return tailed.all(ids("a", 50)) })
		w.waitRanges(16)
		w.reset()
		w.wait(func() bool { return h.came(ids("a", 50)) && w.toReplay() == 0 })
	})
}

// A range that was split and merged again before its lease is replaced keeps the lease.
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
		process.answer(func(r *http.Request) *http.Response {
			if r.Method == http.MethodDelete && failed.CompareAndSwap(false, true) {
				return dead(r)
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
			t.Error("nothing has failed")
		}
	})
}
