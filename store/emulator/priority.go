package emulator

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// While a low-priority reader of the change feed catches up, low-priority requests run one at a time, with pauses:
// requests of normal priority share the processors with them, and in process also the Go scheduler. At other times
// this would only cost CPU, because fewer low-priority requests share a sync. It is off while such a reader falls
// further behind, since its backlog would then grow without bound.
const (
	catchUpLag      = 5 * time.Second        // a reader whose next change is at least this old catches up
	catchUpWindow   = 3 * time.Second        // after a page of such a reader, its writes and next page are expected
	normalWindow    = 100 * time.Millisecond // after a request of normal priority, more of them are expected
	pauseFactor     = 16                     // how many times longer a pause is than the request before it
	maxPause        = 50 * time.Millisecond
	catchUpPageSize = 50               // changes on a page of a reader that catches up
	readerTimeout   = 10 * time.Second // after a reader's last page, the backlog of another reader is measured
)

// lowPriority reports whether the client lets other requests go first.
func (q *request) lowPriority() bool {
	return strings.EqualFold(q.get("X-Ms-Cosmos-Priority-Level"), "Low")
}

// lowPriorityGate limits low-priority requests to one at a time while it is engaged.
type lowPriorityGate struct {
	free        chan time.Time // holds, while the slot is free, the end of the pause
	lastCatchUp atomic.Int64   // last page of a reader that catches up, in Unix nanoseconds
	lastGrowth  atomic.Int64   // last page of a reader that falls further behind
	lastNormal  atomic.Int64   // last request of normal priority
}

func newLowPriorityGate() *lowPriorityGate {
	g := &lowPriorityGate{free: make(chan time.Time, 1)}
	g.free <- time.Time{}
	return g
}

// within reports whether a time of a lowPriorityGate was less than d ago.
func within(d time.Duration, at *atomic.Int64) bool {
	return time.Since(time.Unix(0, at.Load())) < d
}

// engaged reports whether low-priority requests have to wait for a slot.
func (g *lowPriorityGate) engaged() bool {
	return within(catchUpWindow, &g.lastCatchUp) && within(normalWindow, &g.lastNormal) && !within(catchUpWindow, &g.lastGrowth)
}

// slot is held by a running low-priority request. The zero value is that of a request that needs none.
type slot struct {
	gate  *lowPriorityGate
	began time.Time
}

// acquire waits for the slot, if a request needs it, and sets q.slot. Its only error is that of the context.
func (g *lowPriorityGate) acquire(ctx context.Context, q *request) error {
	if !q.lowPriority() {
		g.lastNormal.Store(time.Now().UnixNano())
		return nil
	}
	if !g.engaged() {
		return nil
	}
	select {
	case pauseEnd := <-g.free:
		if !g.engaged() { // no longer
			pauseEnd = time.Now()
		}
		select {
		case <-time.After(time.Until(pauseEnd)):
		case <-ctx.Done():
			g.free <- pauseEnd
			return ctx.Err()
		}
		q.slot = slot{g, time.Now()}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release frees the slot for the next request, after a pause. Further calls do nothing.
func (s *slot) release() {
	if s.gate == nil {
		return
	}
	now := time.Now()
	s.gate.free <- now.Add(min(maxPause, pauseFactor*now.Sub(s.began)))
	s.gate = nil
}

// backlog measures how many transactions of a partition's change feed a reader that catches up has left. Of several
// readers it measures one.
type backlog struct {
	mu        sync.Mutex
	end       uint64    // guarded by mu: LSN at which the reader's last page ended
	read      time.Time // guarded by mu: time of that page
	left      uint64    // guarded by mu: transactions left at the last sample, one a second
	sampledAt time.Time // guarded by mu: time of that sample
}

// grew records a page that begins after the LSN after and ends at end, of a feed that ends at last. It reports
// whether more is left than at the last sample, at least a second ago.
func (b *backlog) grew(after, end, last uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, left := time.Now(), last-end
	if now.Sub(b.read) >= readerTimeout {
		b.left, b.sampledAt = left, now
	} else if after != b.end {
		return false // another reader
	}
	b.end, b.read = end, now
	if now.Sub(b.sampledAt) < time.Second {
		return false
	}
	grew := left > b.left
	b.left, b.sampledAt = left, now
	return grew
}
