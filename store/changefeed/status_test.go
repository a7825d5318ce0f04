package changefeed_test

import (
	"context"
	"testing"
	"time"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

func TestStatus(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		status := func() (all []changefeed.RangeStatus, lag int64) {
			t.Helper()
			all, err := changefeed.Status(t.Context(), w.source, w.leases, "test")
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				lag += s.Lag
				if time.Since(s.Renewed).Abs() > time.Minute {
					t.Errorf("got Renewed %v, want a time within a minute", s.Renewed)
				}
				if (s.Lag == 0) != s.Since.IsZero() {
					t.Errorf("got Lag %d and Since %v", s.Lag, s.Since)
				}
				if !s.Since.IsZero() && time.Since(s.Since).Abs() > time.Minute {
					t.Errorf("got Since %v, want a time within a minute", s.Since)
				}
			}
			return all, lag
		}
		if all, _ := status(); len(all) != 0 {
			t.Errorf("before any processor: %+v", all)
		}
		stop := w.run("one", w.handle, clusterExpiry)
		w.waitRanges(1)
		w.write(ids("a", 3)...)
		w.wait(func() bool { _, lag := status(); return w.all(ids("a", 3)) && lag == 0 })
		if all, _ := status(); len(all) != 1 || all[0].Owner != "one" || all[0].Generation != 1 ||
			all[0].Continuation == "" || all[0].Range.MaxExclusive != "FF" {
			t.Errorf("while it runs: %+v", all)
		}
		stop()
		w.write(ids("b", 7)...)
		all, lag := status()
		if lag != 7 || all[0].Owner != "" {
			t.Errorf("behind by %d: %+v", lag, all)
		}
		w.split() // and no processor has seen the split
		w.write(ids("c", 5)...)
		if all, lag := status(); lag < 12 || len(all) != 1 {
			t.Errorf("behind by %d: %+v", lag, all)
		}
		w.run("two", w.handle, clusterExpiry)
		w.waitRanges(2)
		w.wait(func() bool { all, lag := status(); return len(all) == 2 && lag == 0 })
	})
}

// A name that is a prefix of another has its own leases.
func TestStatus_NamePrefix(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		o := changefeed.Options{Name: "test.more", Owner: "one", PollInterval: time.Millisecond}
		w.runWith(w.client, w.handle, o)
		w.write("a")
		w.waitFor("a")
		for name, want := range map[string]int{o.Name: w.ranges(), "test": 0} {
			if status, err := changefeed.Status(t.Context(), w.source, w.leases, name); err != nil ||
				len(status) != want {
				t.Errorf("%s: %+v, %v", name, status, err)
			}
		}
	})
}

// TestProcessor_HeldAndStalled: a processor reports its leases, and for how long its handler has been running.
func TestProcessor_HeldAndStalled(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.write("a", "b", "c")
		pages := make(chan struct{}) // each lets a page through
		p, err := changefeed.New(w.client.source, w.client.leases, func(ctx context.Context, items [][]byte) error {
			<-pages
			return w.handle(ctx, items)
		}, changefeed.Options{Name: "test", Owner: "one", MaxItems: 2, PollInterval: 100 * time.Millisecond,
			Expiry: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		reports := func(when string, leases int, lag int64, stalled time.Duration) {
			t.Helper()
			if n, l := p.Held(); n != leases || l != lag {
				t.Errorf("%s: holds %d leases with a lag of %d, want %d and %d", when, n, l, leases, lag)
			}
			if d := p.Stalled(); d < stalled || d > stalled+2*time.Second {
				t.Errorf("%s: stalled for %v, want %v", when, d, stalled)
			}
		}
		reports("before it runs", 0, 0, 0)
		stop := w.start(p)
		pass(time.Minute)
		if n, _ := p.Held(); n != 1 || p.Stalled() < 50*time.Second {
			t.Errorf("holds %d leases, stalled for %v", n, p.Stalled())
		}
		pages <- struct{}{}
		pass(10 * time.Second)
		reports("after the first page", 1, 1, 10*time.Second)
		close(pages)
		pass(10 * time.Second)
		reports("after the last page", 1, 0, 0)
		stop()
		reports("when it has ended", 0, 0, 0)
	})
}
