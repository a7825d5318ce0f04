package emulator

import (
	"context"
	"strings"
	"sync/atomic"
	"time"
)

// Low-priority requests give way to the others, which share the processors with them, and in process
// also the Go scheduler: while others come, they run one at a time, with rests.
const (
	othersCome  = 100 * time.Millisecond // after a request of normal priority, more of them are expected
	restFactor  = 4                      // how much longer a rest is than the request before it
	longestRest = 50 * time.Millisecond
	shortPage   = 50 // changes on a page of the change feed
)

// lowPriority reports whether the client allows that other requests go first.
func (q *request) lowPriority() bool {
	return strings.EqualFold(q.get("X-Ms-Cosmos-Priority-Level"), "Low")
}

// turns are the turns of low-priority requests.
type turns struct {
	next  chan time.Time // holds, while nobody has it, the time when the next turn may begin
	other atomic.Int64   // when the last request of normal priority came, in Unix nanoseconds
}

func newTurns() *turns {
	t := &turns{next: make(chan time.Time, 1)}
	t.next <- time.Time{}
	return t
}

// turn is the turn of a low-priority request while others come. The zero value is that of a request
// that waits for none.
type turn struct {
	of    *turns
	began time.Time
}

// take waits for a request's turn, if it has low priority and others come. Its only error is that of the
// context.
func (t *turns) take(ctx context.Context, q *request) error {
	now := time.Now()
	if !q.lowPriority() {
		t.other.Store(now.UnixNano())
		return nil
	}
	if now.Sub(time.Unix(0, t.other.Load())) >= othersCome {
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
