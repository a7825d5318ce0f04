package limit

import (
	"context"
	"log/slog"
	runtimemetrics "runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"byline/graph/refusal"
)

// How Admission decides.
const (
	// The server becomes overloaded when at least manyRunnable goroutines per processor have waited for a processor
	// for the time standing, or for the time growing if they did not become fewer. A burst ends sooner. From then on
	// an operation is admitted only while at most fewRunnable per processor wait. The overload is over when no
	// operation has been refused for the time calm.
	manyRunnable, fewRunnable = 100, 2
	growing, standing, calm   = 10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond

	// Clients that retry at once could keep the server busy with refusals for ever. So when an overload has lasted for
	// the time starving, one in oneOf operations is admitted anyway. To begin sooner, or to admit more, would prolong
	// overloads that end by themselves.
	starving, oneOf = time.Second, 20

	// sampleInterval is how often the runnable goroutines are counted.
	sampleInterval = time.Millisecond

	// maxWait is how long an operation waits for a slot.
	maxWait = 2 * time.Second

	// slowEvent is how long an event occupies its slot at most, so that one that waits for Cosmos DB, or for its
	// client, does not delay others for long.
	slowEvent = 5 * time.Millisecond

	logInterval = 10 * time.Second

	// Overloaded reports true once operations have been refused for as long as overloadedAfter, with
	// pauses of at most refusalPause: after that time other servers should get the load.
	overloadedAfter, refusalPause = 10 * time.Second, time.Second
)

// Admission refuses operations while the server is overloaded, and bounds how many execute
// at a time.
//
// Every request, even one not yet read, needs a goroutine that first waits for a processor. When
// many always wait, everything is slow, and fewer slots do not help: most operations execute
// without interruption once they have a processor. Admission refuses operations, which takes
// about a tenth of the time, until few goroutines wait; later operations are then served at once.
type Admission struct {
	capacity Capacity
	log      *slog.Logger
	slots    chan struct{} // has an element for each operation that executes
	waiting  atomic.Int64  // operations that wait for a slot
	events   chan struct{} // has an element for each event that executes or is delivered

	mu        sync.Mutex
	sampledAt time.Time // guarded by mu, as all below
	behind    time.Time // since when too many goroutines are runnable; zero if they are not
	most      int       // maximum of runnable goroutines since then
	shedding  bool      // the server is overloaded
	shedAt    time.Time // when too many goroutines were last runnable while shedding
	fewAt     time.Time // when few goroutines were runnable, or shedding began
	inRow     int       // operations refused since starving, or since one was admitted nevertheless
	refused   int       // since the last log line; if not 0, a line is due
	loggedAt  time.Time // when that line was written
	refusing  time.Time // since when operations are refused
	refusedAt time.Time // when the last operation was refused
}

// NewAdmission returns the admission control of a server, which logs how many operations it
// refuses.
func NewAdmission(c Capacity, log *slog.Logger) *Admission {
	c = c.withDefaults()
	return &Admission{capacity: c, log: log, slots: make(chan struct{}, c.Executing),
		events: make(chan struct{}, max(1, c.processors/2))}
}

func countRunnable() int {
	sample := [1]runtimemetrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	runtimemetrics.Read(sample[:])
	return int(sample[0].Value.Uint64())
}

// ErrOverloaded refuses an operation for which the server has no capacity.
var ErrOverloaded = &refusal.Error{Code: refusal.Unavailable, Message: "the server is overloaded; try again later",
	RetryAfter: time.Second}

// Shed returns ErrOverloaded if an operation is to be refused. It is called as early as
// possible, so that refusals take little time.
func (a *Admission) Shed() error {
	if !a.overloaded(time.Now()) {
		return nil
	}
	return a.refuse()
}

func (a *Admission) overloaded(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shedding && now.Sub(a.shedAt) > calm {
		a.shedding, a.behind = false, time.Time{}
	}
	since := now.Sub(a.sampledAt)
	if !a.shedding && since < sampleInterval {
		return false
	}
	if a.sampledAt = now; since > calm { // the last sample is too old to compare
		a.behind = time.Time{}
	}
	runnable := a.capacity.Runnable()
	switch {
	case a.shedding:
	case runnable < manyRunnable*a.capacity.processors:
		a.behind = time.Time{}
		return false
	case a.behind.IsZero():
		a.behind, a.most = now, runnable
		return false
	case now.Sub(a.behind) < growing, now.Sub(a.behind) < standing && runnable < a.most:
		a.most = max(a.most, runnable)
		return false
	}
	few := runnable <= fewRunnable*a.capacity.processors
	if few || !a.shedding {
		a.fewAt, a.inRow = now, 0
	}
	if few {
		return false
	}
	a.shedding, a.shedAt = true, now
	if now.Sub(a.fewAt) < starving {
		return true
	}
	a.inRow = (a.inRow + 1) % oneOf
	return a.inRow != 0
}

// refuse returns ErrOverloaded and counts it for the log: the first refusal is logged at once, and
// then the number of refusals every logInterval.
func (a *Admission) refuse() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.refusedAt) > refusalPause {
		a.refusing = now
	}
	a.refusedAt = now
	if a.refused++; a.refused == 1 {
		time.AfterFunc(time.Until(a.loggedAt.Add(logInterval)), a.logRefused)
	}
	return ErrOverloaded
}

// Overloaded reports whether operations have been refused for ten seconds, and still are.
func (a *Admission) Overloaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.refusedAt) <= refusalPause && a.refusedAt.Sub(a.refusing) >= overloadedAfter
}

func (a *Admission) logRefused() {
	a.mu.Lock()
	n := a.refused
	a.refused, a.loggedAt = 0, time.Now()
	a.mu.Unlock()
	a.log.Warn("overloaded", "refused", n, "executing", len(a.slots))
}

// Acquire waits for a slot, which the caller releases with Release. It returns ErrOverloaded if too
// many operations wait already, or after maxWait.
func (a *Admission) Acquire(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > int64(a.capacity.Waiting) {
		return a.refuse()
	}
	tooLong := time.NewTimer(maxWait)
	defer tooLong.Stop()
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-tooLong.C:
		return a.refuse()
	}
}

// Release releases a slot.
func (a *Admission) Release() { <-a.slots }

// AcquireEvent waits until fewer events execute or are delivered than half of the processors, but at least one, so that
// an event with a thousand subscribers leaves processors to requests, or until ctx ends. The caller calls release once
// the event has been delivered.
func (a *Admission) AcquireEvent(ctx context.Context) (release func()) {
	select {
	case a.events <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	once := sync.OnceFunc(func() { <-a.events })
	late := time.AfterFunc(slowEvent, once)
	return func() {
		late.Stop()
		once()
	}
}
