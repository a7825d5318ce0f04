package emulator

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// While a reader of the change feed catches up, low-priority requests yield to the others, which share the
// processors with them, and in process also the Go scheduler: they run one at a time, with rests. At other times
// that would only take more CPU, as fewer of them share a sync. They do not yield while a reader falls further
// behind, since its backlog would then grow without end.
const (
	farBehind   = 5                      // seconds: a reader whose next change is as old catches up
	catchesUp   = 3 * time.Second        // after a page of such a reader, its writes and the next page are expected
	othersCome  = 100 * time.Millisecond // after a request of normal priority, more of them are expected
	restFactor  = 12                     // how much longer a rest is than the request before it
	longestRest = 50 * time.Millisecond
	shortPage   = 50               // changes on a page of a reader that catches up
	readerGone  = 10 * time.Second // after a reader's last page, another one's backlog is watched
)

// lowPriority reports whether the client allows that other requests go first.
func (q *request) lowPriority() bool {
	return strings.EqualFold(q.get("X-Ms-Cosmos-Priority-Level"), "Low")
}

// turns are the turns of low-priority requests.
type turns struct {
	next   chan time.Time // holds, while nobody has it, the time when the next turn may begin
	behind atomic.Int64   // when a reader that catches up last read a page, in Unix nanoseconds
	grows  atomic.Int64   // when a reader that falls further behind last read a page
	other  atomic.Int64   // when the last request of normal priority came
}

// recent reports whether a time of turns was less than d ago.
func recent(at *atomic.Int64, d time.Duration) bool {
	return time.Since(time.Unix(0, at.Load())) < d
}

// yields reports whether low-priority requests yield to the others.
func (t *turns) yields() bool {
	return recent(&t.behind, catchesUp) && recent(&t.other, othersCome) && !recent(&t.grows, catchesUp)
}

// backlog is what one reader of a partition's change feed that catches up has left. Of several readers it watches
// one.
type backlog struct {
	mu   sync.Mutex
	end  uint64    // guarded by mu: LSN at which the reader's last page ended
	read time.Time // guarded by mu: when that was
	left uint64    // guarded by mu: transactions after a page, at most once a second
	at   time.Time // guarded by mu: when that page was read
}

// grew records that a reader has read a page that begins after the LSN after, of a feed that ends at last. It
// reports whether more is left than a second ago, or longer.
func (b *backlog) grew(after, end, last uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, left := time.Now(), last-end
	if now.Sub(b.read) >= readerGone {
		b.left, b.at = left, now
	} else if after != b.end {
		return false // another reader
	}
	b.end, b.read = end, now
	if now.Sub(b.at) < time.Second {
		return false
	}
	grew := left > b.left
	b.left, b.at = left, now
	return grew
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
	if !t.yields() {
		return nil
	}
	select {
	case next := <-t.next:
		if !t.yields() { // any more
			next = time.Now()
		}
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
