package changefeed_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// lost is how many transactions the region lacks after a failover.
const lost = 1000

// region answers for the account: before the failover its LSNs are those of the engine and lost more.
type region struct {
	*world
	failedOver atomic.Bool
	behind     atomic.Int64 // reads since then whose continuation is ahead of the region
	level      atomic.Int64 // and those whose continuation is not
}

func (g *region) wire(r *http.Request) *http.Response {
	if r.Header.Get("A-Im") == "" {
		return nil
	}
	at, err := strconv.Atoi(strings.Trim(r.Header.Get("If-None-Match"), `"`))
	if g.failedOver.Load() {
		if err == nil && at > lost {
			g.behind.Add(1)
		} else {
			g.level.Add(1)
		}
		return nil
	}
	r = r.Clone(r.Context())
	if err == nil {
		r.Header.Set("If-None-Match", strconv.Quote(strconv.Itoa(at-lost)))
	}
	resp, err := g.account.Transport.Do(r)
	if err != nil {
		return nil
	}
	if at, err := strconv.Atoi(strings.Trim(resp.Header.Get("Etag"), `"`)); err == nil {
		resp.Header.Set("Etag", strconv.Quote(strconv.Itoa(at+lost)))
	}
	id, token, _ := strings.Cut(resp.Header.Get("X-Ms-Session-Token"), "#")
	if lsn, err := strconv.Atoi(token); err == nil {
		resp.Header.Set("X-Ms-Session-Token", id+"#"+strconv.Itoa(lsn+lost))
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
	return g.runWith(g.client, handle, changefeed.Options{Name: "test", Owner: owner, PollInterval: 100 * time.Millisecond, Expiry: 3 * time.Second})
}

// TestFailover_LostWrites: if the region has lost writes that were handled, new changes are not skipped
// until it has as many again: the range is replayed.
func TestFailover_LostWrites(t *testing.T) {
	run(t, "while the processor runs", func(t *testing.T) {
		g := newRegion(t)
		g.same = true
		g.write("a", "b")
		g.process("one", g.handle)
		g.waitFor("a b")
		g.failedOver.Store(true)
		g.write("c")
		g.waitFor("a b a b c")
		g.write("d")
		g.waitFor("a b a b c d")
	})
	run(t, "between two processes", func(t *testing.T) {
		g := newRegion(t)
		g.same = true
		g.write("a", "b")
		stop := g.process("one", g.handle)
		g.waitFor("a b")
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

// TestFailover_LaggingReplica: a replica that is behind the checkpoint for a while is no reason to replay.
func TestFailover_LaggingReplica(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		g := newRegion(t)
		g.same = true
		g.write("a", "b")
		g.process("one", g.handle)
		g.waitFor("a b")
		for range 2 {
			g.failedOver.Store(true)
			pass(6 * time.Second)
			g.failedOver.Store(false)
			pass(time.Second)
		}
		g.write("c")
		g.waitFor("a b c")
		if g.behind.Load() == 0 {
			t.Error("nothing was read from the replica: this test shows nothing")
		}
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
