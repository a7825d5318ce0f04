package graph

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// How admission decides.
const (
	// maxExecuting is how many operations execute at a time at most, and maxWaiting how
	// many wait for their turn.
	maxExecuting, maxWaiting = 1000, 1000

	// admissionWindow is how many operations are looked at together.
	admissionWindow = 50

	// maxSlowdown is how much slower operations may be than on a quiet server before
	// fewer of them execute at a time.
	maxSlowdown = 1.5

	// Operations may have to wait as long as two of the slowest take on a quiet server,
	// within minPatience and maxPatience. The server is overloaded when they have to wait
	// longer than that for ten of the slowest, within minStanding and maxStanding: a
	// burst is over sooner. None waits longer than that.
	minPatience, maxPatience = 5 * time.Millisecond, 50 * time.Millisecond
	minStanding, maxStanding = 100 * time.Millisecond, 2 * time.Second

	// quietInterval is how old the knowledge of a quiet server may be, and quietTimeout
	// how long a server that is never quiet is made so.
	quietInterval, quietTimeout = 10 * time.Second, 200 * time.Millisecond

	// stuckInterval is how long it may take for one of those that execute to be done.
	stuckInterval = time.Second

	overloadLogInterval = 10 * time.Second
)

// admission decides how many operations execute at a time, so that what is executed is
// quick however much is sent, and refuses the rest while that is cheap.
//
// How many depends on the machine, on Cosmos DB, and on what is asked for, so it is
// found out, as adaptive concurrency in Envoy finds it: from how much longer operations
// take than those that had the server to themselves. On a server that is never quiet,
// few are admitted for a moment from time to time, to look. Those that have to wait do
// so in turn. Where they have had to wait too long for a while, the server is
// overloaded (CoDel): then few may wait, and the others are refused, most
// of them at the door. That lasts until none has had to be refused for a while.
type admission struct {
	procs int
	log   *slog.Logger

	mu        sync.Mutex
	executing int       // guarded by mu, as is all below
	limit     float64   // how many may execute
	waiting   list.List // of *waiter, the oldest in front
	behind    time.Time // since when operations wait too long; zero if they do not
	shedding  bool      // the server is overloaded
	shedAt    time.Time // when it last had to refuse one

	quiet, all window
	base, tail time.Duration // of quiet operations: how long they take, and the slowest of a window
	quietAt    time.Time     // when base was last found, or tried to be
	probing    time.Time     // since when few are admitted, to find base; zero if they are not
	waited     bool          // some have had to wait in this window
	movedAt    time.Time     // when one of those that execute began, or was done

	refused int       // since the operator was told
	toldAt  time.Time // when that was
}

// window sums up how long operations took. Their mean is the geometric one, which a
// few that take a thousand times longer than the rest do not change much.
type window struct {
	n    int
	logs float64
	max  time.Duration
}

func (w *window) add(d time.Duration) {
	w.n++
	w.logs += math.Log(float64(max(d, time.Microsecond)))
	w.max = max(w.max, d)
}

func (w *window) mean() time.Duration { return time.Duration(math.Exp(w.logs / float64(w.n))) }

// turn is an operation's leave to execute. The zero turn is none.
type turn struct {
	began time.Time
	quiet bool // few others execute
}

// waiter is an operation that waits for its turn.
type waiter struct {
	since   time.Time
	decided chan turn // has room for the decision
}

func newAdmission(log *slog.Logger) *admission {
	procs := runtime.GOMAXPROCS(0)
	return &admission{procs: procs, log: log, limit: float64(16 * procs), tail: maxPatience}
}

var errOverloaded = &refusal{code: unavailable, message: "the server has more to do than it can; try again later", retryAfter: time.Second}

// enter waits for the operation's turn, which must be given back to leave. It returns
// errOverloaded when that does not come soon enough.
func (a *admission) enter(ctx context.Context) (turn, error) {
	if a == nil {
		return turn{}, nil
	}
	a.mu.Lock()
	now := time.Now()
	a.expireLocked(now)
	if a.waiting.Len() == 0 && a.executing < a.mostLocked(now) {
		defer a.mu.Unlock()
		return a.admitLocked(now), nil
	}
	a.waited = true
	if a.fullLocked(now) {
		a.mu.Unlock()
		return turn{}, a.overloaded(ctx)
	}
	w := &waiter{since: now, decided: make(chan turn, 1)}
	place := a.waiting.PushBack(w)
	longest := a.standingLocked()
	if now.Sub(a.movedAt) > stuckInterval { // then others need not wait for them
		a.limit = min(float64(max(a.executing, int(a.limit))+a.procs), maxExecuting)
		a.nextLocked(now)
	}
	a.mu.Unlock()

	patience := time.NewTimer(longest) // where nothing ends that could decide
	defer patience.Stop()
	var decision turn
	select {
	case decision = <-w.decided:
	case <-patience.C:
	case <-ctx.Done():
	}
	if decision == (turn{}) {
		a.mu.Lock()
		a.waiting.Remove(place)
		select {
		case decision = <-w.decided: // at the same moment
		default:
		}
		a.mu.Unlock()
	}
	switch {
	case decision != (turn{}):
		return decision, nil
	case ctx.Err() != nil:
		return turn{}, ctx.Err()
	}
	return turn{}, a.overloaded(ctx)
}

// overloaded returns errOverloaded and, now and then, tells the operator: a line for
// each would be more than the log can bear.
func (a *admission) overloaded(ctx context.Context) error {
	a.mu.Lock()
	now, n, limit := time.Now(), 0, a.limit
	a.refused++
	if now.Sub(a.toldAt) >= overloadLogInterval {
		n, a.refused, a.toldAt = a.refused, 0, now
	}
	a.mu.Unlock()
	if n > 0 {
		a.log.WarnContext(ctx, "overloaded", logRefused, n, logExecuting, int(limit))
	}
	return errOverloaded
}

// leave gives a turn back.
func (a *admission) leave(t turn) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.executing--
	a.movedAt = now
	a.learnLocked(t, now)
	a.expireLocked(now)
	a.nextLocked(now)
}

// nextLocked gives those that wait the turns that there are.
func (a *admission) nextLocked(now time.Time) {
	for a.waiting.Len() > 0 && a.executing < a.mostLocked(now) {
		a.waiting.Remove(a.waiting.Front()).(*waiter).decided <- a.admitLocked(now)
	}
}

func (a *admission) admitLocked(now time.Time) turn {
	a.executing++
	a.movedAt = now
	return turn{began: now, quiet: a.executing <= a.procs}
}

// mostLocked is how many may execute.
func (a *admission) mostLocked(now time.Time) int {
	if !a.probing.IsZero() {
		if now.Sub(a.probing) < quietTimeout {
			return a.procs
		}
		a.probing, a.quietAt = time.Time{}, now // those under way take too long
	}
	return int(a.limit)
}

// patienceLocked is how long operations may have to wait.
func (a *admission) patienceLocked() time.Duration {
	return min(max(minPatience, 2*a.tail), maxPatience)
}

// standingLocked is how long they may have to wait longer than that.
func (a *admission) standingLocked() time.Duration {
	return min(max(minStanding, 10*a.tail), maxStanding)
}

// expireLocked finds out whether the server is overloaded. If it is, those that have
// waited too long are refused.
func (a *admission) expireLocked(now time.Time) {
	patience := a.patienceLocked()
	late := func() bool {
		e := a.waiting.Front()
		return e != nil && now.Sub(e.Value.(*waiter).since) > patience
	}
	switch {
	case a.shedding && now.Sub(a.shedAt) > a.standingLocked():
		a.shedding, a.behind = false, time.Time{}
	case !late():
		a.behind = time.Time{}
	case a.behind.IsZero():
		a.behind = now
	case !a.shedding && now.Sub(a.behind) >= a.standingLocked():
		a.shedding, a.shedAt = true, now
	}
	for a.shedding && late() {
		a.shedAt = now
		a.waiting.Remove(a.waiting.Front()).(*waiter).decided <- turn{}
	}
}

// fullLocked reports whether no more may wait.
func (a *admission) fullLocked(now time.Time) bool {
	most := maxWaiting
	if a.shedding {
		most = max(a.procs, int(a.limit)/2)
	}
	if a.waiting.Len() < most {
		return false
	}
	a.shedAt = now
	return true
}

// full reports whether an operation would be refused at once, and counts it if so: for
// whoever can answer for less than it takes to find out what the operation is.
func (a *admission) full(ctx context.Context) bool {
	a.mu.Lock()
	now := time.Now()
	a.expireLocked(now)
	full := a.shedding && a.executing >= a.mostLocked(now) && a.fullLocked(now)
	a.mu.Unlock()
	if full {
		_ = a.overloaded(ctx)
	}
	return full
}

// door refuses requests while the server is overloaded, before anything of them is
// read: to refuse many must not be what keeps it busy.
func (a *admission) door(next http.Handler) http.Handler {
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.full(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", mediaJSON+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", "1")
		writeBody(w, http.StatusServiceUnavailable, fmt.Appendf(nil, `{"errors":[{"message":%q,"extensions":{"code":%q,"requestId":%q,"retryAfterMs":%d}}]}`+"\n",
			errOverloaded.message, errOverloaded.code, requestFrom(r.Context()).id, errOverloaded.retryAfter.Milliseconds()))
	})
}

// learnLocked looks at how long an operation took.
func (a *admission) learnLocked(t turn, now time.Time) {
	took := now.Sub(t.began)
	a.all.add(took)
	if t.quiet {
		a.quiet.add(took)
	}
	if a.quiet.n >= admissionWindow {
		a.base, a.tail = blend(a.base, a.quiet.mean()), blend(a.tail, a.quiet.max)
		a.quiet, a.quietAt, a.probing = window{}, now, time.Time{}
	}
	if a.all.n < admissionWindow {
		return
	}
	mean, waited := a.all.mean(), a.waited
	a.all, a.waited = window{}, false
	switch {
	case !a.probing.IsZero() || !waited: // it says nothing about the limit
	case now.Sub(a.quietAt) > quietInterval:
		a.probing, a.quiet = now, window{}
	case a.base > 0:
		slowdown := max(0.5, min(1, maxSlowdown*float64(a.base)/float64(mean)))
		// Where it is as low as this, all are quiet, and base is found anew.
		a.limit = min(max(a.limit*slowdown+math.Sqrt(a.limit)/2, float64(a.procs)), maxExecuting)
	}
}

// blend moves what is known towards what was found.
func blend(known, found time.Duration) time.Duration {
	if known == 0 {
		return found
	}
	return (known + found) / 2
}
