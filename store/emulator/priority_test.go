package emulator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestLowPriorityGate_Pauses: while a reader catches up and requests of normal priority come, a low-priority request
// waits for the one before it, and for a pause.
func TestLowPriorityGate_Pauses(t *testing.T) {
	low := func() *request { return &request{header: http.Header{"X-Ms-Cosmos-Priority-Level": {"low"}}} }
	synctest.Test(t, func(t *testing.T) {
		gate := newLowPriorityGate()
		const took, pause = 2 * time.Millisecond, pauseFactor * 2 * time.Millisecond
		// run returns how long a low-priority request waits for the slot.
		run := func() time.Duration {
			t.Helper()
			q, began := low(), time.Now()
			if err := gate.acquire(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			waited := time.Since(began)
			<-time.After(took) // the request's work, in a bubble
			q.slot.release()
			return waited
		}
		normal := func() {
			if err := gate.acquire(t.Context(), &request{}); err != nil {
				t.Fatal(err)
			}
		}
		normal()
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waited %v and %v without a reader that catches up, want 0", first, second)
		}
		<-time.After(time.Second)
		gate.lastCatchUp.Store(time.Now().UnixNano())
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waited %v and %v without requests of normal priority, want 0", first, second)
		}
		normal()
		run()
		if waited := run(); waited != pause {
			t.Errorf("waited %v after a request of normal priority, want %v", waited, pause)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := gate.acquire(ctx, low()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire during the pause: got %v, want %v", err, context.DeadlineExceeded)
		}
		first, second := low(), low()
		if err := gate.acquire(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := gate.acquire(ctx, second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire of a held slot: got %v, want %v", err, context.DeadlineExceeded)
		}
		first.slot.release()
		first.slot.release() // does nothing
		run()
		<-time.After(normalWindow)
		if waited := run(); waited > 0 {
			t.Errorf("waited %v long after a request of normal priority, want 0", waited)
		}
		normal()
		run()
		gate.lastGrowth.Store(time.Now().UnixNano())
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waited %v and %v while a backlog grows, want 0", first, second)
		}
		<-time.After(catchUpWindow)
		gate.lastCatchUp.Store(time.Now().UnixNano())
		normal()
		run()
		if waited := run(); waited != pause {
			t.Errorf("waited %v long after a backlog grew, want %v", waited, pause)
		}
		<-time.After(catchUpWindow)
		normal()
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waited %v and %v long after the last page of old changes, want 0", first, second)
		}
	})
}

// TestBacklog_Grew: a backlog grows if its reader has more left than a second ago. Other readers do not count.
func TestBacklog_Grew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backlog
		for i, page := range []struct {
			pause            time.Duration
			after, end, last uint64
			grew             bool
		}{
			{0, 0, 50, 1000, false},
			{time.Second / 2, 50, 200, 2000, false},
			{time.Second / 2, 200, 250, 2000, true},
			{time.Second / 2, 1900, 1950, 2000, false}, // another reader
			{time.Second / 2, 10, 60, 2000, false},     // a third reader
			{0, 250, 300, 2000, false},
			{9 * time.Second, 300, 350, 9000, true}, // a slow page
			{time.Second, 350, 400, 9050, false},    // no more than before
			{readerTimeout, 10, 60, 9999, false},    // another reader, after the first has timed out
			{time.Second, 60, 110, 12_000, true},
			{readerTimeout, 110, 160, 99_999, false}, // a new measurement after a timeout
		} {
			<-time.After(page.pause)
			if got := b.grew(page.after, page.end, page.last); got != page.grew {
				t.Errorf("page %d: grew %v, want %v", i, got, page.grew)
			}
		}
	})
}

// TestChangeFeed_ShortPagesWhileCatchingUp: a low-priority reader that catches up gets short pages while requests of
// normal priority come.
func TestChangeFeed_ShortPagesWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Options{})
		defer e.Close()
		c := newContainer(t, e, azcosmos.ContainerProperties{})
		write := func(from, to int) {
			for i := from; i < to; i++ {
				mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p"}`, i))
			}
		}
		const all = 3 * catchUpPageSize
		var end string // of the last page
		page := func(priority, after string) string {
			t.Helper()
			h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}, "X-Ms-Max-Item-Count": {"1000"},
				"X-Ms-Cosmos-Priority-Level": {priority}, "If-None-Match": {after}}
			r, err := e.Do(signed(t, http.MethodGet, "/dbs/db/colls/c/docs", h, nil))
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r, err)
			}
			end = r.Header.Get("Etag")
			return r.Header.Get("X-Ms-Item-Count")
		}
		// want reads a page and checks the number of its changes.
		want := func(n int, priority, after, what string) {
			t.Helper()
			if got := page(priority, after); got != fmt.Sprint(n) {
				t.Errorf("%s: got %s changes, want %d", what, got, n)
			}
		}
		write(0, all-1)
		want(all-1, "Low", "", "new changes, low priority")
		<-time.After(catchUpLag)
		want(all-1, "Low", "", "old changes, low priority, no other requests")
		<-time.After(readerTimeout)
		write(all-1, all)
		want(all, "High", "", "old changes, high priority")
		want(catchUpPageSize, "Low", "", "old changes, low priority, after a write")
		<-time.After(time.Second)
		write(all, 2*all)
		want(catchUpPageSize, "Low", end, "next page")
		want(2*all-2*catchUpPageSize, "Low", end, "page after the reader fell further behind")
		<-time.After(catchUpWindow)
		write(2*all, 2*all+1)
		want(catchUpPageSize, "Low", "", "page long after the reader fell further behind")
	})
}
