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
		turns.catchUp(false)
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
		turns.catchUp(true)
		other()
		if first, second := run(), run(); first > 0 || second > 0 {
			t.Errorf("waits of %v and %v while a backlog grows", first, second)
		}
		<-time.After(catchesUp)
		turns.catchUp(false)
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
		page := func(priority string) string {
			h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}, "X-Ms-Max-Item-Count": {"1000"},
				"X-Ms-Cosmos-Priority-Level": {priority}}
			r, err := e.Do(signed(t, http.MethodGet, "/dbs/db/colls/c/docs", h, nil))
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r, err)
			}
			return r.Header.Get("X-Ms-Item-Count")
		}
		write(0, all-1)
		if got := page("Low"); got != fmt.Sprint(all-1) {
			t.Errorf("%s new changes of low priority after writes", got)
		}
		<-time.After(farBehind * time.Second)
		if got := page("Low"); got != fmt.Sprint(all-1) {
			t.Errorf("%s old changes of low priority, while nothing else comes", got)
		}
		write(all-1, all)
		if got := page("Low"); got != fmt.Sprint(shortPage) {
			t.Errorf("%s old changes of low priority after a write", got)
		}
		if got := page("High"); got != fmt.Sprint(all) {
			t.Errorf("%s old changes of high priority", got)
		}
		<-time.After(time.Second)
		write(all, 2*all)
		if got := page("Low"); got != fmt.Sprint(2*all) {
			t.Errorf("%s old changes of low priority while the reader falls further behind", got)
		}
		<-time.After(catchesUp)
		write(2*all, 2*all+1)
		if got := page("Low"); got != fmt.Sprint(shortPage) {
			t.Errorf("%s old changes of low priority, long after the reader fell behind", got)
		}
	})
}
