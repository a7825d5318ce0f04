package changefeed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// A region that has lost writes in a failover may overtake the continuation before its first read. Then it
// has unhandled changes before the continuation: those since the last read before the failover are read
// again, but not older ones.
func TestFailover_Overtaken(t *testing.T) {
	for name, running := range map[string]bool{"between two processes": false, "while the processor waits": true} {
		run(t, name, func(t *testing.T) {
			w := newFailover(t)
			w.write("a")
			pass(20 * time.Minute)
			w.replicated.Store(true)
			o := changefeed.Options{Name: "test", Owner: "one", PollInterval: 10 * time.Second, Expiry: 3 * time.Second}
			var repeated []bool // of each page
			handle := func(ctx context.Context, items [][]byte) error {
				w.mu.Lock()
				repeated = append(repeated, changefeed.Repeated(ctx))
				w.mu.Unlock()
				return w.handle(ctx, items)
			}
			stop := w.runWith(w.client, handle, o)
			w.waitFor("a")
			w.write("b", "c")
			w.waitFor("a b c")
			pass(time.Minute)
			if !running {
				stop()
			}
			pass(time.Second)
			w.fail()
			w.write("d", "e", "f") // d and e have the LSNs of b and c
			if !running {
				w.runWith(w.client, handle, o)
			}
			w.waitFor("a b c f d e f")
			if !repeated[len(repeated)-1] {
				t.Error("Repeated is false after a failover")
			}
			pass(10 * time.Minute)
			w.write("g")
			w.waitFor("a b c f d e f g")
		})
	}
}

// A processor that is hours behind when the account fails over skips none of the changes.
func TestFailover_Backlog(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newFailover(t)
		w.write(ids("a", 9)...)
		w.replicated.Store(true)
		pass(time.Hour)
		o := changefeed.Options{Name: "test", Owner: "one", MaxItems: 2, Expiry: 3 * time.Second}
		stop := w.runWith(w.client, func(ctx context.Context, items [][]byte) error {
			if w.have() != "" {
				return errors.New("busy")
			}
			return w.handle(ctx, items)
		}, o)
		w.waitFor("a0 a1")
		stop()
		w.fail()
		w.runWith(w.client, w.handle, o)
		w.wait(func() bool { return w.all(ids("a", 9)) })
	})
}

// A failover without lost writes repeats only the last changes, once.
func TestFailover_NothingLost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		g := newRegion(t)
		g.same = true
		g.write("old")
		g.runWith(g.client, g.handle,
			changefeed.Options{Name: "test", Owner: "one", PollInterval: 10 * time.Second, Expiry: time.Minute})
		g.waitFor("old")
		pass(20 * time.Minute)
		g.write("a", "b")
		g.waitFor("old a b")
		g.raised.Store(true)
		g.waitFor("old a b a b")
		pass(20 * time.Minute)
		g.write("c")
		g.waitFor("old a b a b c")
	})
}
