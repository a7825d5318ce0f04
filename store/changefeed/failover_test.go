package changefeed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// lost is the number of transactions that a failover loses.
const lost = 1000

// region is an account whose LSNs are those of the engine plus lost. After a failover, or from a lagging
// region, they are those of the engine.
type region struct {
	*world
	failedOver atomic.Bool  // the failover lost transactions
	raised     atomic.Bool  // the account failed over without a loss
	lagging    atomic.Bool  // reads go to a region that lags
	behind     atomic.Int64 // reads then with a continuation ahead of the region
	level      atomic.Int64 // reads then with another continuation
}

func (g *region) wire(r *http.Request) *http.Response {
	if r.Header.Get("A-Im") == "" {
		return nil
	}
	at, err := strconv.Atoi(strings.Trim(r.Header.Get("If-None-Match"), `"`))
	version, lacks := 1, g.failedOver.Load() || g.lagging.Load()
	if g.failedOver.Load() || g.raised.Load() {
		version++
	}
	if lacks && err == nil && at > lost {
		g.behind.Add(1)
	} else if lacks {
		g.level.Add(1)
	}
	more := lost
	if lacks {
		more = 0
	}
	r = r.Clone(r.Context())
	if err == nil {
		r.Header.Set("If-None-Match", strconv.Quote(strconv.Itoa(at-more)))
	}
	resp, err := g.account.Transport.Do(r)
	if err != nil {
		return nil
	}
	if at, err := strconv.Atoi(strings.Trim(resp.Header.Get("Etag"), `"`)); err == nil {
		resp.Header.Set("Etag", strconv.Quote(strconv.Itoa(at+more)))
	}
	id, lsn, _ := strings.Cut(resp.Header.Get("X-Ms-Session-Token"), ":-1#")
	if lsn, err := strconv.Atoi(lsn); err == nil {
		resp.Header.Set("X-Ms-Session-Token", fmt.Sprintf("%s:%d#%d", id, version, lsn+more))
	}
	return resp
}

// newRegion returns a world whose client reads through a region.
func newRegion(t *testing.T) *region {
	cosmostest.NeedsEngine(t, "it changes LSNs")
	g := &region{world: newWorld(t)}
	g.client.intercept(g.wire)
	return g
}

func (g *region) process(owner string, handle changefeed.Handler) (stop func()) {
	g.t.Helper()
	return g.runWith(g.client, handle,
		changefeed.Options{Name: "test", Owner: owner, PollInterval: time.Second, Expiry: 3 * time.Second})
}

// newReadRegion returns a region with items a and b, which a process has handled. It runs until stop is called.
func newReadRegion(t *testing.T) (g *region, stop func()) {
	t.Helper()
	g = newRegion(t)
	g.same = true
	g.write("a", "b")
	stop = g.process("one", g.handle)
	g.waitFor("a b")
	return g, stop
}

// TestFailover_LostWrites: if the region has lost handled writes, the range is replayed, so that new changes
// with the same LSNs are not skipped.
func TestFailover_LostWrites(t *testing.T) {
	run(t, "while the processor runs", func(t *testing.T) {
		g, _ := newReadRegion(t)
		g.failedOver.Store(true)
		g.write("c")
		g.waitFor("a b a b c")
		g.write("d")
		g.waitFor("a b a b c d")
	})
	run(t, "between two processes", func(t *testing.T) {
		g, stop := newReadRegion(t)
		stop()
		g.failedOver.Store(true)
		g.write("c")
		var replaying atomic.Bool
		g.process("two", func(ctx context.Context, items [][]byte) error {
			replaying.Store(changefeed.Replaying(ctx))
			return g.handle(ctx, items)
		})
		g.waitFor("a b a b c")
		if !replaying.Load() {
			t.Error("Replaying is false during the replay")
		}
		if resets := g.checkpoint()["resets"]; resets != 1.0 {
			t.Errorf("got %v resets, want 1", resets)
		}
		g.wait(func() bool { return g.checkpoint()["replayTo"] == nil }) // the replay has ended
	})
}

// TestFailover_LaggingReplica: a region behind the checkpoint, however long it lags, causes no replay unless
// the account has failed over.
func TestFailover_LaggingReplica(t *testing.T) {
	lag := func(g *region, d time.Duration) {
		g.t.Helper()
		before := g.behind.Load()
		g.lagging.Store(true)
		pass(d)
		g.lagging.Store(false)
		if g.behind.Load() == before {
			g.t.Error("nothing was read from the lagging region: the test is void")
		}
	}
	run(t, "while the processor runs", func(t *testing.T) {
		g, _ := newReadRegion(t)
		for range 2 {
			lag(g, 5*time.Minute)
			pass(time.Second)
		}
		g.write("c")
		g.waitFor("a b c")
	})
	run(t, "between two processes", func(t *testing.T) {
		g, stop := newReadRegion(t)
		stop()
		g.process("two", g.handle)
		lag(g, 5*time.Minute)
		g.write("c")
		g.waitFor("a b c")
	})
	run(t, "followed by a failover", func(t *testing.T) {
		g, _ := newReadRegion(t)
		lag(g, time.Minute)
		g.failedOver.Store(true)
		g.write("c")
		g.waitFor("a b a b c")
	})
}

// failover is an account that fails over to another one with a past state: the writes until replicated was called.
type failover struct {
	*world
	from, to               policy.Transporter
	replicated, failedOver atomic.Bool
}

// newFailover returns a world that can fail over. Its leases are in another account, which loses none.
func newFailover(t *testing.T) *failover {
	cosmostest.NeedsEngine(t, "it fails over")
	account := cosmostest.Open(t, emulator.Options{})
	f := &failover{from: account.Transport, to: cosmostest.Open(t, emulator.Options{}).Transport}
	account.Transport = f
	f.world = newWorldOn(t, account)
	f.same = true
	f.leases = newWorld(t).leases
	return f
}

// fail fails over. Clients are connected anew.
func (f *failover) fail() {
	f.failedOver.Store(true)
	leases := f.leases
	f.client = f.process()
	f.leases = leases
}

// Do implements policy.Transporter.
func (f *failover) Do(r *http.Request) (*http.Response, error) {
	to, version := f.from, ":1#"
	if f.failedOver.Load() {
		to, version = f.to, ":2#"
	} else if !f.replicated.Load() && r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		both := r.Clone(r.Context())
		r.Body, both.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		if _, err := f.to.Do(both); err != nil {
			return nil, err
		}
	}
	resp, err := to.Do(r)
	if err == nil {
		token := enginetest.RegionalToken(resp.Header.Get("X-Ms-Session-Token"))
		resp.Header.Set("X-Ms-Session-Token", strings.Replace(token, ":0#", version, 1))
	}
	return resp, err
}

// TestFailover_TwoAccounts uses a failover to an account that lacks writes.
func TestFailover_TwoAccounts(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newFailover(t)
		w.write("a")
		w.replicated.Store(true)
		w.write("b", "c")
		stop := w.run("one", w.handle, 3*time.Second)
		w.waitFor("a b c")
		stop()
		w.fail()
		w.write("d")
		w.run("two", w.handle, 3*time.Second)
		w.waitFor("a b c a d") // d has the LSN of b
	})
}

// TestTail_LostWrites: after a failover a Tail continues at the end of the region.
func TestTail_LostWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		g := newRegion(t)
		g.same = true
		g.write("before")
		g.tailWith(g.source, g.handle, changefeed.Options{PollInterval: time.Second, Expiry: 20 * time.Second})
		g.write("a")
		g.waitFor("a")
		g.failedOver.Store(true)
		g.wait(func() bool { return g.level.Load() > 0 })
		g.write("b")
		g.waitFor("a b")
	})
}
