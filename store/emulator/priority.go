package emulator

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// While a reader of the change feed catches up, low-priority requests give way to the others, which share the
// processors with them, and in process also the Go scheduler: they run one at a time, with rests. At other times
// that would only take more CPU, as fewer of them share a sync. While a reader falls further behind, they do not, so
// that readers keep up with as many writes as without rests.
const (
	farBehind   = 5                      // seconds: a reader whose next change is as old catches up
	catchesUp   = 3 * time.Second        // after a page of such a reader, its writes and the next page are expected
	othersCome  = 100 * time.Millisecond // after a request of normal priority, more of them are expected
	restFactor  = 12                     // how much longer a rest is than the request before it
	longestRest = 100 * time.Millisecond
	shortPage   = 50 // changes on a page of a reader that catches up
)

// lowPriority reports whether the client allows that other requests go first.
func (q *request) lowPriority() bool {
	return strings.EqualFold(q.get("X-Ms-Cosmos-Priority-Level"), "Low")
}

// turns are the turns of low-priority requests.
type turns struct {
	next   chan time.Time // holds, while nobody has it, the time when the next turn may begin
	behind atomic.Int64   // when a reader that catches up last read a page, in Unix nanoseconds
	grows  atomic.Int64   // when one last did whose backlog grows
	other  atomic.Int64   // when the last request of normal priority came
}

// recent reports whether a time of turns was less than d ago.
func recent(at *atomic.Int64, d time.Duration) bool {
	return time.Since(time.Unix(0, at.Load())) < d
}

// give reports whether low-priority requests give way to the others.
func (t *turns) give() bool {
	return recent(&t.behind, catchesUp) && recent(&t.other, othersCome) && !recent(&t.grows, catchesUp)
}

// catchUp records that a reader catches up, and whether its backlog grows nevertheless.
func (t *turns) catchUp(grows bool) {
	now := time.Now().UnixNano()
	t.behind.Store(now)
	if grows {
		t.grows.Store(now)
	}
}

// backlog is what a reader of the change feed that catches up has left.
type backlog struct {
	mu    sync.Mutex
	at    time.Time
	left  uint64 // transactions, at that time
	grows bool   // since the time before
}

// note records what is left once a second. It reports whether that grows.
func (b *backlog) note(left uint64) (grows bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := time.Since(b.at); since >= time.Second {
		b.grows = left > b.left && since < catchesUp
		b.at, b.left = time.Now(), left
	}
	return b.grows
}

func newTurns() *turns {
	t := &turns{next: make(chan time.Time, 1)}
	t.next <- time.Time{}
	return t
}

// turn is the turn of a low-priority request. The zero value is that of a request that needs none.
type turn struct {
	of    *turns
	began time.Time
}

// take waits for a request's turn, if it needs one. Its only error is that of the context.
func (t *turns) take(ctx context.Context, q *request) error {
	if !q.lowPriority() {
		t.other.Store(time.Now().UnixNano())
		return nil
	}
	if !t.give() {
		return nil
	}
	select {
	case next := <-t.next:
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			t.next <- next
			return ctx.Err()
		}
		q.turn = turn{t, time.Now()}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end lets the next request have its turn. Further calls do nothing.
func (t *turn) end() {
	if t.of == nil {
		return
	}
	now := time.Now()
	t.of.next <- now.Add(min(longestRest, restFactor*now.Sub(t.began)))
	t.of = nil
}
