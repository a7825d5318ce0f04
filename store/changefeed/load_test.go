package changefeed_test

import (
	"errors"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// After a load, a processor begins behind it, if it had read everything before and has not run meanwhile.
func TestBeginLoad(t *testing.T) {
	lease := func(owner string, expiry time.Duration) map[string]any {
		return map[string]any{"id": leaseID, "maxExclusive": "FF", "owner": owner, "generation": 7, "expiry": expiry}
	}
	runs := func(w *world) {
		p, err := changefeed.New(w.source, w.leases, w.handle, changefeed.Options{Name: "test", Owner: "two"})
		if err != nil {
			w.t.Fatal(err)
		}
		stop := w.start(p)
		w.wait(func() bool { // if it stopped while it takes the lease, it would not release it
			held, _ := p.Held()
			return held == 1
		})
		stop()
	}
	for name, c := range map[string]struct {
		before, during func(*world)
		read           string // of the load a, and of b, which is written after it
		err            error
	}{
		"no lease -> begins after the load":   {read: "b"},
		"free lease -> begins after the load": {before: runs, read: "b"},
		"another lives -> refused": {before: func(w *world) {
			w.makeLease(w.t.Context(), w.client, lease("two", time.Hour))
		}, err: changefeed.ErrRunning},
		"its own lease -> begins after the load": {before: func(w *world) {
			w.makeLease(w.t.Context(), w.client, lease("one", time.Hour))
		}, read: "b"},
		"expired lease -> begins after the load": {before: func(w *world) {
			w.makeLease(w.t.Context(), w.client, lease("two", -time.Hour))
		}, read: "b"},
		"unread change -> reads everything":        {before: func(w *world) { w.write("unread") }, read: "unread a b"},
		"one ran meanwhile -> reads from there on": {during: runs, read: "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				w.needRange()
				if c.before != nil {
					c.before(w)
				}
				o := changefeed.Options{Name: "test", Owner: "one"}
				skip, err := changefeed.BeginLoad(t.Context(), w.source, w.leases, o)
				if !errors.Is(err, c.err) {
					t.Fatalf("got %v, want %v", err, c.err)
				}
				if c.err != nil {
					return
				}
				if c.during != nil {
					c.during(w)
				}
				w.write("a")
				if err := skip(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.write("b")
				w.run("one", w.handle, clusterExpiry)
				w.wait(func() bool { return w.all([]string{"b"}) })
				if have := w.have(); have != c.read {
					t.Errorf("read %q, want %q", have, c.read)
				}
				if all := w.leaseItems(); c.read == "b" && (len(all) != 1 || all[0].Generation < 2) {
					t.Errorf("leases: %+v, want one that was freed and taken", all)
				}
			})
		})
	}
}

// In an account that has failed over, a processor reads nothing of the load again.
func TestBeginLoad_AfterFailover(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		g := newRegion(t)
		g.raised.Store(true)
		skip, err := changefeed.BeginLoad(t.Context(), g.source, g.leases, changefeed.Options{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		g.write("a")
		if err := skip(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.write("b")
		g.process("one", g.handle)
		g.wait(func() bool { return g.all([]string{"b"}) })
		g.write("c")
		g.wait(func() bool { return g.all([]string{"c"}) })
		if have := g.have(); have != "b c" {
			t.Errorf("read %q, want b c", have)
		}
	})
}
