package graph

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// maxExecuting is how many operations execute at a time, and maxWaiting how many wait
// for their turn; variables so that a test need not send as many.
var maxExecuting, maxWaiting = 1000, 1000

// How admission decides.
const (
	// A server is overloaded when manyRunnable goroutines wait for each processor for as
	// long as standing, or for as long as growing and then are as many as ever: a burst is
	// over sooner, though it may take its time to come. Then operations are admitted where
	// no more than fewRunnable do, until none has had to be refused for calm.
	manyRunnable, fewRunnable = 100, 2
	growing, standing, calm   = 10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond

	// lookInterval is how often the server looks whether it is overloaded.
	lookInterval = time.Millisecond

	// maxWait is how long operations wait for their turn.
	maxWait = 2 * time.Second

	overloadLogInterval = 10 * time.Second
)

// admission refuses operations while there are more than the server can execute, and
// bounds how many execute at a time.
//
// Whatever is to be done, a request that nobody has looked at yet included, is done by a
// goroutine that waits for a processor first. Where many wait all the time, everything
// takes long, and it does not help to execute few operations at a time: most execute
// in one go, once they have a processor. What helps is to refuse them, which takes about
// a tenth of the time, until few wait; and those that come then are answered at once.
type admission struct {
	procs    int
	runnable func() int // goroutines that wait for a processor
	log      *slog.Logger
	turns    chan struct{} // has one for each operation that executes
	waiting  atomic.Int64  // operations that wait for their turn

	mu       sync.Mutex
	lookedAt time.Time // guarded by mu, as is all below
	behind   time.Time // since when too many wait; zero if they do not
	most     int       // how many have waited since, at most
	shedding bool      // the server is overloaded
	shedAt   time.Time // when it last had to refuse an operation
	refused  int       // since the operator was told: if any, the operator will be
	toldAt   time.Time // when that was
}

func newAdmission(log *slog.Logger) *admission {
	return &admission{procs: runtime.GOMAXPROCS(0), runnable: countRunnable, log: log, turns: make(chan struct{}, maxExecuting)}
}

// countRunnable counts the goroutines that wait for a processor; a variable so that a
// test need not keep the processors busy.
var countRunnable = func() int {
	sample := [1]runtimemetrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	runtimemetrics.Read(sample[:])
	return int(sample[0].Value.Uint64())
}

var errOverloaded = &refusal{code: unavailable, message: "the server is overloaded; try again later", retryAfter: time.Second}

// shed returns errOverloaded if the operation is one to refuse: for whoever can do so
// before anything else is done with it.
func (a *admission) shed() error {
	if a == nil || !a.overloaded(time.Now()) {
		return nil
	}
	return a.refuse()
}

func (a *admission) overloaded(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shedding && now.Sub(a.shedAt) > calm {
		a.shedding, a.behind = false, time.Time{}
	}
	since := now.Sub(a.lookedAt)
	if !a.shedding && since < lookInterval {
		return false
	}
	if a.lookedAt = now; since > calm { // nothing is known of the time between
		a.behind = time.Time{}
	}
	runnable := a.runnable()
	switch {
	case a.shedding:
	case runnable < manyRunnable*a.procs:
		a.behind = time.Time{}
		return false
	case a.behind.IsZero():
		a.behind, a.most = now, runnable
		return false
	case now.Sub(a.behind) < growing, now.Sub(a.behind) < standing && runnable < a.most:
		a.most = max(a.most, runnable)
		return false
	}
	if runnable > fewRunnable*a.procs {
		a.shedding, a.shedAt = true, now
		return true
	}
	return false
}

// refuse returns errOverloaded and has the operator told: of the first at once, and then of
// how many it were, as a line for each would be more than the log can bear.
func (a *admission) refuse() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused++; a.refused == 1 {
		time.AfterFunc(time.Until(a.toldAt.Add(overloadLogInterval)), a.tell)
	}
	return errOverloaded
}

// tell tells the operator how many have been refused since it was last called.
func (a *admission) tell() {
	a.mu.Lock()
	n := a.refused
	a.refused, a.toldAt = 0, time.Now()
	a.mu.Unlock()
	a.log.Warn("overloaded", logRefused, n, logExecuting, len(a.turns))
}

// enter waits for the operation's turn to execute, which must be given back by leave. It
// returns errOverloaded when that does not come soon.
func (a *admission) enter(ctx context.Context) error {
	if a == nil {
		return nil
	}
	select {
	case a.turns <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > int64(maxWaiting) {
		return a.refuse()
	}
	tooLong := time.NewTimer(maxWait)
	defer tooLong.Stop()
	select {
	case a.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-tooLong.C:
		return a.refuse()
	}
}

// leave gives a turn back.
func (a *admission) leave() {
	if a != nil {
		<-a.turns
	}
}

// door refuses requests while the server is overloaded, before anything of them is
// read: to refuse many must not be what keeps it busy.
func (a *admission) door(next http.Handler, m metrics) http.Handler {
	if a == nil {
		return next
	}
	refused := m.responses.WithLabelValues(string(typeNone), string(errOverloaded.code))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.shed() == nil {
			next.ServeHTTP(w, r)
			return
		}
		refused.Inc()
		h := w.Header()
		h.Set("Content-Type", mediaJSON+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", "1")
		writeBody(w, http.StatusServiceUnavailable, fmt.Appendf(nil, `{"errors":[{"message":%q,"extensions":{"code":%q,"requestId":%q,"retryAfterMs":%d}}]}`+"\n",
			errOverloaded.message, errOverloaded.code, requestFrom(r.Context()).id, errOverloaded.retryAfter.Milliseconds()))
	})
}
