package changefeed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// leaseItem is a lease as it is stored.
type leaseItem struct {
	ID, Owner, Continuation    string
	MinInclusive, MaxExclusive string
	Generation, Resets         int64
	Merging                    bool
}

func (w *world) leaseItems() (all []leaseItem) {
	w.t.Helper()
	pager := w.leases.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil)
	for pager.More() {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, raw := range page.Items {
			var v leaseItem
			if err := json.Unmarshal(raw, &v); err != nil {
				w.t.Fatal(err)
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b leaseItem) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// owners returns the number of leases of each owner.
func (w *world) owners() map[string]int {
	count := map[string]int{}
	for _, v := range w.leaseItems() {
		count[v.Owner]++
	}
	return count
}

// Reasons for NeedsEngine.
const (
	whySplit = "it splits feed ranges"
	whyMerge = "it shows one feed range as two, and later as one"
)

// split splits every range of the source once.
func (w *world) split() {
	w.t.Helper()
	first := w.next
	w.next = 2*w.next + 1
	for id := first; id < w.next; id++ {
		if err := w.account.Engine.Split(w.account.Database, "source", fmt.Sprint(id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// waitRanges waits until there is exactly one lease for each range.
func (w *world) waitRanges(n int) {
	w.t.Helper()
	w.wait(func() bool {
		all := w.leaseItems()
		at := ""
		for _, v := range all {
			if v.MinInclusive != at || v.Merging {
				return false
			}
			at = v.MaxExclusive
		}
		return len(all) == n && at == "FF"
	})
}

// fences checks that no two processes work on a range in the same generation.
type fences struct {
	t     testing.TB
	mu    sync.Mutex
	owner map[string]string // guarded by mu
}

func (f *fences) handle(next changefeed.Handler) changefeed.Handler {
	return func(ctx context.Context, items [][]byte) error {
		l, ok := changefeed.LeaseOf(ctx)
		if !ok {
			f.t.Error("the handler's context has no lease")
		}
		f.mu.Lock()
		key := fmt.Sprint(l.Range, l.Generation)
		if f.owner == nil {
			f.owner = map[string]string{}
		}
		if owner := f.owner[key]; owner != "" && owner != l.Owner {
			f.t.Errorf("%s and %s work on %v in generation %d", owner, l.Owner, l.Range, l.Generation)
		}
		f.owner[key] = l.Owner
		f.mu.Unlock()
		return next(ctx, items)
	}
}

// all reports whether all items were handled at least once.
func (w *world) all(ids []string) bool {
	have := map[string]bool{}
	for _, id := range strings.Fields(w.have()) {
		have[id] = true
	}
	return !slices.ContainsFunc(ids, func(id string) bool { return !have[id] })
}

func ids(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

func unavailable(*http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{}}
}

const clusterExpiry = 400 * time.Millisecond

func TestProcessors_ShareRanges(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRanges(8, 4)
		f := fences{t: t}
		stop, process := map[string]func(){}, map[string]*client{}
		join := func(owner string) {
			process[owner] = w.process()
			stop[owner] = w.runOn(process[owner], owner, f.handle(w.handle), clusterExpiry)
		}
		evenly := func(owners ...string) {
			t.Helper()
			w.wait(func() bool {
				count := w.owners()
				least, most := w.ranges(), 0
				for _, o := range owners {
					least, most = min(least, count[o]), max(most, count[o])
				}
				return len(count) == len(owners) && most-least <= 1
			})
		}
		var written []string
		write := func(prefix string) {
			t.Helper()
			more := ids(prefix, 40)
			w.write(more...)
			written = append(written, more...)
			w.wait(func() bool { return w.all(written) })
		}
		join("one")
		join("two")
		join("three")
		write("a")
		evenly("one", "two", "three")

		process["two"].intercept(unavailable) // it releases nothing
		stop["two"]()
		write("b")
		evenly("one", "three")

		join("four")
		write("c")
		evenly("one", "three", "four")

		stop["one"]() // releases all
		evenly("three", "four")
		write("d")
	})
}

func TestPausedOwner_WritesRefused(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a")
		paused, f := w.process(), fences{t: t}
		begun, ended := make(chan struct{}), make(chan error, 1)
		w.runOn(paused, "one", f.handle(func(ctx context.Context, items [][]byte) error {
			close(begun)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil // ignores the cancellation: only the refused checkpoint stops it
		}), clusterExpiry)
		testkit.Receive(t, begun)
		resume := make(chan struct{})
		paused.intercept(func(r *http.Request) *http.Response {
			select {
			case <-resume:
			case <-r.Context().Done():
			}
			return nil
		})
		w.runOn(w.process(), "two", f.handle(w.handle), clusterExpiry)
		w.waitFor("a")
		w.wait(func() bool { return w.leaseItems()[0].Continuation != "" })
		before := w.leaseItems()[0]
		close(resume)
		if cause := testkit.Receive(t, ended); !errors.Is(cause, changefeed.ErrLeaseLost) {
			t.Errorf("the handler's context ended with %v, want %v", cause, changefeed.ErrLeaseLost)
		}
		pass(clusterExpiry)
		if after := w.leaseItems()[0]; after != before || after.Owner != "two" {
			t.Errorf("got lease %+v, want it unchanged: %+v", after, before)
		}
	})
}

// A lease expires after its owner's Expiry, not after that of the process that wants it.
func TestTake_OwnerWithLongerExpiry(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.run("slow", w.handle, time.Hour)
		w.write("a")
		w.waitFor("a")
		before := w.checkpoint()
		fast := w.process()
		var lists atomic.Int32
		fast.intercept(func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/colls/leases/docs") &&
				strings.Contains(r.Header.Get("Content-Type"), "query") {
				lists.Add(1)
			}
			return nil
		})
		w.runOn(fast, "fast", w.handle, 30*time.Millisecond)
		w.wait(func() bool { return lists.Load() > 20 })
		if after := w.checkpoint(); after["owner"] != "slow" || after["generation"] != before["generation"] {
			t.Errorf("got lease %v, want it unchanged: %v", after, before)
		}
	})
}

// The handler's context ends with the next renewal.
func TestStolenLease_CancelsHandler(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a")
		begun, ended := make(chan struct{}), make(chan error, 1)
		w.run("one", func(ctx context.Context, items [][]byte) error {
			close(begun)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}, clusterExpiry)
		testkit.Receive(t, begun)
		r, err := w.leases.ReadItem(t.Context(), azcosmos.NewPartitionKeyString(leaseID), leaseID, nil)
		if err != nil {
			t.Fatal(err)
		}
		stolen := []byte(strings.Replace(strings.Replace(string(r.Value), `"one"`, `"thief"`, 1), `"generation":1`,
			`"generation":2`, 1))
		if _, err := w.leases.ReplaceItem(t.Context(), azcosmos.NewPartitionKeyString(leaseID), leaseID, stolen,
			nil); err != nil {
			t.Fatal(err)
		}
		select {
		case cause := <-ended:
			if !errors.Is(cause, changefeed.ErrLeaseLost) {
				t.Errorf("the handler's context ended with %v, want %v", cause, changefeed.ErrLeaseLost)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the handler was not canceled after its lease was stolen")
		}
		if v := w.leaseItems()[0]; v.Continuation != "" {
			t.Errorf("the checkpoint of the old owner was accepted: %+v", v)
		}
	})
}

// An ambiguous lease write does not lose the lease, not even if replicas do not have it yet.
func TestAmbiguousLeaseWrite_KeepsLease(t *testing.T) {
	for name, ahead := range map[string]int32{"replicas current": 0, "replicas behind": 2} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.needRange()
			process := w.process()
			w.runOn(process, "one", w.handle, time.Hour)
			w.write("a")
			w.waitFor("a")
			w.checkpoint()
			var once sync.Once
			var behind atomic.Int32
			behind.Store(ahead)
			process.intercept(func(r *http.Request) (lost *http.Response) {
				switch {
				case !strings.Contains(r.URL.Path, "/colls/leases/"):
				case r.Method == http.MethodPut:
					once.Do(func() {
						if resp, err := w.account.Transport.Do(r); err == nil {
							_ = resp.Body.Close()
						}
						lost = unavailable(r)
					})
				case r.Method == http.MethodGet && behind.Add(-1) >= 0:
					return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody,
						Header: http.Header{"X-Ms-Substatus": {"1002"}}}
				}
				return lost
			})
			w.write("b")
			w.wait(func() bool { return w.all([]string{"b"}) })
			w.write("c", "d")
			w.wait(func() bool {
				status, err := changefeed.Status(t.Context(), w.source, w.leases, "test")
				return err == nil && w.all([]string{"c", "d"}) && status[0].Lag == 0
			})
			if v := w.leaseItems()[0]; v.Generation != 1 || v.Owner != "one" {
				t.Errorf("got lease %+v, want owner one in generation 1", v)
			}
		})
	}
}

// A lease that its owner renews just before it is taken stays with its owner.
func TestTake_ConcurrentRenewal(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		renew := func(times int) {
			item := fmt.Sprintf(
				`{"id":%q,"minInclusive":"","maxExclusive":"FF","owner":"slow","generation":1,"renewals":%d,"expiry":%d}`, leaseID, times, time.Millisecond)
			if _, err := w.leases.UpsertItem(t.Context(), azcosmos.NewPartitionKeyString(leaseID), []byte(item),
				nil); err != nil {
				t.Error(err)
			}
		}
		renew(1)
		process := w.process()
		var mu sync.Mutex
		renewed, listed := false, false // guarded by mu; listed: after the renewal
		process.intercept(func(r *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !strings.Contains(r.URL.Path, "/colls/leases/"):
			case r.Method == http.MethodPost: // the leases are listed
				listed = renewed
			case r.Method == http.MethodPut && !renewed:
				renew(2)
				renewed = true
			case r.Method == http.MethodPut && !listed:
				t.Error("the lease was taken although it was renewed")
			}
			return nil
		})
		w.runOn(process, "two", w.handle, clusterExpiry)
		w.write("a")
		w.waitFor("a")
	})
}
