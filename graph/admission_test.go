package graph

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// machine executes operations on some processors that they share. Its time is that of
// a synctest bubble.
type machine struct {
	*admission
	service time.Duration // of an operation that is alone, on average
	random  *rand.Rand

	mu        sync.Mutex
	executing int             // guarded by mu, as is all below
	most      int             // that have executed at a time
	answered  []time.Duration // how long they took, with the time they waited
	refused   []time.Duration
}

func newMachine(t testing.TB, service time.Duration) *machine {
	a := newAdmission(slog.New(slog.NewTextHandler(t.Output(), nil)))
	a.procs, a.limit = 2, 32 // whatever this machine has
	return &machine{admission: a, service: service, random: rand.New(rand.NewPCG(1, 2))}
}

// do looks at what is guarded.
func (a *admission) do(look func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look()
}

// capacity is how many operations it can answer in a second.
func (m *machine) capacity() float64 { return float64(m.procs) / m.service.Seconds() }

// operation arrives, and executes when it is its turn.
func (m *machine) operation(t testing.TB, alone time.Duration) {
	began := time.Now()
	var turn turn
	err := error(errOverloaded)
	if !m.full(t.Context()) {
		turn, err = m.enter(t.Context())
	}
	if err != nil && !errors.Is(err, errOverloaded) {
		t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.refused = append(m.refused, time.Since(began))
		return
	}
	m.executing++
	m.most = max(m.most, m.executing)
	takes := time.Duration(float64(alone) * max(1, float64(m.executing)/float64(m.procs)))
	m.mu.Unlock()
	time.Sleep(takes)
	m.leave(turn)
	m.mu.Lock()
	m.executing--
	m.answered = append(m.answered, time.Since(began))
}

// load sends so many operations a second, whatever becomes of them. It returns how long
// it took to answer or refuse those that came after the first tenth, sorted.
func (m *machine) load(t testing.TB, perSecond float64, d time.Duration) (answered, refused []time.Duration) {
	var all sync.WaitGroup
	notice := time.Now().Add(d / 10)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !notice.IsZero() && time.Now().After(notice) {
			notice = time.Time{}
			m.mu.Lock()
			m.answered, m.refused = nil, nil
			m.mu.Unlock()
		}
		time.Sleep(time.Duration(m.random.ExpFloat64() / perSecond * float64(time.Second)))
		alone := time.Duration((0.5 + m.random.Float64()) * float64(m.service))
		all.Go(func() { m.operation(t, alone) })
	}
	all.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	answered, refused = m.answered, m.refused
	m.answered, m.refused = nil, nil
	slices.Sort(answered)
	slices.Sort(refused)
	return answered, refused
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// At four times its capacity, what a machine answers is answered almost as fast as when
// it has little to do, it answers about as many as it can, what it refuses it refuses
// at once; and when the load is over, all is as before.
func TestOverload(t *testing.T) {
	for _, service := range []time.Duration{300 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond} {
		t.Run(service.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, service)
				span := 4000 * service // 8,000 operations at capacity
				before, refused := m.load(t, m.capacity()/10, span)
				if len(refused) > 0 {
					t.Errorf("%d refused at a tenth of the capacity", len(refused))
				}
				answered, refused := m.load(t, m.capacity()*4, span)
				possible := m.capacity() * span.Seconds() * 0.9
				t.Logf("p99 %s at a tenth of the capacity, %s at four times; %.0f%% of what is possible; refused after %s (p99); %d executed at a time",
					p99(before), p99(answered), float64(len(answered))/possible*100, p99(refused), m.most)
				if p99(answered) >= 4*p99(before) {
					t.Errorf("p99 %s, and %s unloaded", p99(answered), p99(before))
				}
				if float64(len(answered)) < 0.8*possible {
					t.Errorf("%d answered, %.0f are possible", len(answered), possible)
				}
				if slowest := refused[len(refused)-1]; slowest > maxStanding {
					t.Errorf("refused after %s", slowest)
				}
				after, refused := m.load(t, m.capacity()/10, span)
				if len(refused) > 0 || p99(after) > 2*p99(before) {
					t.Errorf("after the load p99 %s, before it %s; %d refused", p99(after), p99(before), len(refused))
				}
				m.admission.do(func() {
					if m.admission.executing != 0 || m.waiting.Len() != 0 {
						t.Errorf("%d execute, %d wait", m.admission.executing, m.waiting.Len())
					}
				})
			})
		})
	}
}

// A burst is no overload.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, time.Millisecond)
		m.load(t, m.capacity()/2, time.Second)
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() { m.operation(t, time.Millisecond) })
		}
		all.Wait()
		if len(m.refused) > 0 {
			t.Errorf("%d of 60 are refused", len(m.refused))
		}
	})
}

// Operations that hang hold up the others for no longer than it takes to see that they do.
func TestHangingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 300*time.Microsecond)
		m.load(t, m.capacity()*4, time.Second)
		hanging := 0
		m.admission.do(func() { hanging = int(m.limit) })
		var all sync.WaitGroup
		for range hanging {
			all.Go(func() { m.operation(t, time.Minute) })
		}
		synctest.Wait()
		count := func(n int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.executing += n
		}
		count(-hanging) // they take no processor
		time.Sleep(2 * stuckInterval)
		_, first := m.load(t, 10, 10*time.Second)
		_, then := m.load(t, 10, 10*time.Second)
		t.Logf("%d hang: %d refused, then %d", hanging, len(first), len(then))
		if len(first) > 50 || len(then) > 0 {
			t.Errorf("%d refused, then %d", len(first), len(then))
		}
		count(hanging)
		all.Wait()
	})
}

// The queue is bounded, and one who leaves it is forgotten.
func TestAdmissionIsBounded(t *testing.T) {
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(textLogger(&log))
		a.procs, a.limit = 1, 1
		turn, err := a.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		refused := make(chan time.Duration, 2*maxWaiting)
		for range 2 * maxWaiting {
			all.Go(func() {
				began := time.Now()
				if _, err := a.enter(t.Context()); !errors.Is(err, errOverloaded) {
					t.Error(err)
				}
				refused <- time.Since(began)
			})
		}
		synctest.Wait()
		a.do(func() {
			if n, m := len(refused), a.waiting.Len(); n != maxWaiting || m != maxWaiting {
				t.Errorf("%d are refused at once, %d wait", n, m)
			}
		})
		all.Wait()
		a.do(func() {
			if n := a.waiting.Len(); n != 0 {
				t.Errorf("%d wait", n)
			}
		})
		a.leave(turn)
		if turn, err = a.enter(t.Context()); err != nil {
			t.Error(err)
		}
		a.leave(turn)
	})
	if n := strings.Count(log.String(), "msg=overloaded"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
