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

// While a reader catches up and requests of normal priority come, one of low priority waits for the one before it,
// and for a rest.
func TestTurns_LowPriorityRests(t *testing.T) {
	low := func() *request { return &request{header: http.Header{"X-Ms-Cosmos-Priority-Level": {"low"}}} }
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		// run returns how long a low-priority request of 2 ms waits for its turn.
		run := func() time.Duration {
			t.Helper()
			q, began := low(), time.Now()
			if err := turns.take(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			waited := time.Since(began)
			<-time.After(2 * time.Millisecond) // the request's work, in a bubble
			q.turn.end()
			return waited
		}
		other := func() {
			if err := turns.take(t.Context(), &request{}); err != nil {
				t.Fatal(err)
			}
		}
		other()
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waits of %v and %v while nothing catches up", first, second)
		}
		<-time.After(time.Second)
		turns.behind.Store(time.Now().UnixNano())
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waits of %v and %v while nothing else comes", first, second)
		}
		other()
		run()
		if waited := run(); waited != restFactor*2*time.Millisecond {
			t.Errorf("a wait of %v after another request", waited)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := turns.take(ctx, low()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v during the rest", err)
		}
		first, second := low(), low()
		if err := turns.take(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := turns.take(ctx, second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v while another has its turn", err)
		}
		first.turn.end()
		first.turn.end() // does nothing
		run()
		<-time.After(othersCome)
		if waited := run(); waited > 0 {
			t.Errorf("a wait of %v long after another request", waited)
		}
		other()
		run()
		turns.grows.Store(time.Now().UnixNano())
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waits of %v and %v while a backlog grows", first, second)
		}
		<-time.After(catchesUp)
		turns.behind.Store(time.Now().UnixNano())
		other()
		run()
		if waited := run(); waited != restFactor*2*time.Millisecond {
			t.Errorf("a wait of %v long after a backlog grew", waited)
		}
		<-time.After(catchesUp)
		other()
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waits of %v and %v long after the last page of old changes", first, second)
		}
	})
}

// A backlog grows if its reader has more left than a second ago, whatever other readers have.
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
			{time.Second / 2, 10, 60, 2000, false},     // a third one
			{0, 250, 300, 2000, false},
			{9 * time.Second, 300, 350, 9000, true}, // a slow page
			{time.Second, 350, 400, 9050, false},    // no more than before
			{readerGone, 10, 60, 9999, false},       // another reader, as the first is gone
			{time.Second, 60, 110, 12_000, true},
			{readerGone, 110, 160, 99_999, false}, // it was not behind meanwhile
		} {
			<-time.After(page.pause)
			if got := b.grew(page.after, page.end, page.last); got != page.grew {
				t.Errorf("page %d: %v", i, got)
			}
		}
	})
}

// Pages of low priority are short for a reader of the change feed that catches up, while other requests come.
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
		const all = 3 * shortPage
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
		write(0, all-1)
		if got := page("Low", ""); got != fmt.Sprint(all-1) {
			t.Errorf("%s new changes of low priority after writes", got)
		}
		<-time.After(farBehind * time.Second)
		if got := page("Low", ""); got != fmt.Sprint(all-1) {
			t.Errorf("%s old changes of low priority, while nothing else comes", got)
		}
		<-time.After(readerGone)
		write(all-1, all)
		if got := page("High", ""); got != fmt.Sprint(all) {
			t.Errorf("%s old changes of high priority", got)
		}
		if got := page("Low", ""); got != fmt.Sprint(shortPage) {
			t.Errorf("%s old changes of low priority after a write", got)
		}
		<-time.After(time.Second)
		write(all, 2*all)
		if got := page("Low", end); got != fmt.Sprint(shortPage) {
			t.Errorf("%s old changes of low priority on the next page", got)
		}
		if got := page("Low", end); got != fmt.Sprint(2*all-2*shortPage) {
			t.Errorf("%s old changes of low priority after the reader fell further behind", got)
		}
		<-time.After(catchesUp)
		write(2*all, 2*all+1)
		if got := page("Low", ""); got != fmt.Sprint(shortPage) {
			t.Errorf("%s old changes of low priority, long after the reader fell behind", got)
		}
	})
}
