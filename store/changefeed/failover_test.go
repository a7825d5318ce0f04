package changefeed_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/longtest"
	"byline/store/changefeed"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// lost is how many transactions the region lacks after a failover.
const lost = 1000

// region answers for the account: at first its LSNs are those of the engine and lost more.
type region struct {
	*world
	failedOver atomic.Bool
	raised     atomic.Bool  // nothing was lost in a failover
	lagging    atomic.Bool  // another region is read, which lacks as many but has lost nothing
	behind     atomic.Int64 // reads since then whose continuation is ahead of the region
	level      atomic.Int64 // and those whose continuation is not
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
	g.client.answer(g.wire)
	return g
}

func (g *region) process(owner string, handle changefeed.Handler) (stop func()) {
	g.t.Helper()
	return g.runWith(g.client, handle, changefeed.Options{Name: "test", Owner: owner, PollInterval: time.Second, Expiry: 3 * time.Second})
}

// newReadRegion returns a region of which a process, which runs until stop is called, has handled a and b.
func newReadRegion(t *testing.T) (g *region, stop func()) {
	t.Helper()
	g = newRegion(t)
	g.same = true
	g.write("a", "b")
	stop = g.process("one", g.handle)
	g.waitFor("a b")
	return g, stop
}

// TestFailover_LostWrites: if the region has lost writes that were handled, new changes are not skipped
// until it has as many again: the range is replayed.
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
			t.Error("the handler is not told that changes are repeated")
		}
		if resets := g.checkpoint()["resets"]; resets != 1.0 {
			t.Errorf("%v resets", resets)
		}
		g.wait(func() bool { return g.checkpoint()["replayTo"] == nil }) // the replay has ended
	})
}

// TestFailover_LaggingReplica: a region that is behind the checkpoint is no reason to replay, however
// long it lags, unless the account has failed over.
func TestFailover_LaggingReplica(t *testing.T) {
	lag := func(g *region, d time.Duration) {
		g.t.Helper()
		before := g.behind.Load()
		g.lagging.Store(true)
		pass(d)
		g.lagging.Store(false)
		if g.behind.Load() == before {
			g.t.Error("nothing was read from the region: this test shows nothing")
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
	run(t, "and then a failover", func(t *testing.T) {
		g, _ := newReadRegion(t)
		lag(g, time.Minute)
		g.failedOver.Store(true)
		g.write("c")
		g.waitFor("a b a b c")
	})
}

// TestFailover_Engine: the engine's failover is one that lost writes. The leases are in an account that
// lost none.
func TestFailover_Engine(t *testing.T) {
	longtest.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it fails over")
		w := newWorldWith(t, emulator.Options{Regions: []string{"West US", "East US"}})
		w.same = true
		w.write("a")
		if err := w.account.Engine.Replicated(); err != nil {
			t.Fatal(err)
		}
		w.write("b", "c")
		leases := newWorld(t).leases
		w.client.leases = leases
		stop := w.run("one", w.handle, 3*time.Second)
		w.waitFor("a b c")
		stop()
		if err := w.account.Engine.FailOver(); err != nil {
			t.Fatal(err)
		}
		w.client = w.process()
		w.client.leases = leases
		w.write("d")
		w.run("two", w.handle, 3*time.Second)
		w.waitFor("a b c a d") // d has the LSN of b
	})
}

// TestTail_LostWrites: a tail goes on at the end of the region that is read.
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
