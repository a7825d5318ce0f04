package emulator

import (
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"byline/store/emulator/internal/apierror"
)

// lowPriorityReserve is the part of a second's budget that low-priority requests leave to others,
// so that they are throttled first.
const lowPriorityReserve = 0.5

// budget limits the request units of one physical partition: a token bucket with the capacity of
// one second. As in the service, a request is admitted while the bucket is not empty, and charged
// when its charge is known; later requests wait until an overdraft is refilled.
type budget struct {
	mu     sync.Mutex
	left   float64   // guarded by mu; negative if overdrawn
	filled time.Time // guarded by mu; time of left; zero before the first request
}

// take returns how long a request must wait before a retry, 0 if it is admitted.
func (b *budget) take(rate float64, now time.Time, low bool) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filled.IsZero() {
		b.left, b.filled = rate, now
	}
	if passed := now.Sub(b.filled); passed > 0 {
		b.left, b.filled = min(rate, b.left+rate*passed.Seconds()), now
	}
	floor := 0.0
	if low {
		floor = rate * lowPriorityReserve
	}
	if b.left > floor {
		return 0
	}
	return time.Duration(math.Floor((floor-b.left)/rate*1000)+1) * time.Millisecond
}

func (b *budget) pay(charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= charge
}

// lowPriority reports whether the client lets other requests go first.
func (q *request) lowPriority() bool {
	return strings.EqualFold(q.get("X-Ms-Cosmos-Priority-Level"), "Low")
}

// backgroundSlot is held by the running request of low priority. Such requests run one at a time, because requests of
// normal priority share the processors with them, and in process also the Go scheduler.
type backgroundSlot chan struct{}

// enter waits for the slot if the request has low priority. Its only error is that of the context.
func (s backgroundSlot) enter(q *request) error {
	if !q.lowPriority() {
		return nil
	}
	select {
	case s <- struct{}{}:
		q.slot = s
		return nil
	case <-q.ctx.Done():
		return q.ctx.Err()
	}
}

// leave frees the slot if the request holds it.
func (q *request) leave() {
	if q.slot != nil {
		<-q.slot
		q.slot = nil
	}
}

// admit returns a 429 if one of the physical partitions is over its budget.
func (e *Engine) admit(q *request, all ...*partition) error {
	if e.o.RUs == 0 {
		return nil
	}
	rate, low := float64(e.o.RUs), q.lowPriority()
	var wait time.Duration
	for _, p := range all {
		wait = max(wait, p.budget.take(rate, e.o.Clock(), low))
	}
	if wait > 0 {
		return apierror.TooManyRequests(wait)
	}
	return nil
}

// pay debits the charge of a response. A throttled request pays nothing.
func (e *Engine) pay(resp *response) {
	switch {
	case e.o.RUs == 0 || resp.status == http.StatusTooManyRequests:
	case len(resp.payers) > 0:
		for _, p := range resp.payers {
			p.budget.pay(resp.charge / float64(len(resp.payers)))
		}
	case resp.partition != nil:
		resp.partition.budget.pay(resp.charge)
	}
}
