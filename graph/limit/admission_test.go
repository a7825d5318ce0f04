package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

// machine simulates a server with two processors, which execute operations without interruption, in
// the order of their arrival. Its time is that of a synctest bubble.
type machine struct {
	*Admission
	service time.Duration // of an operation, on average
	random  *rand.Rand
	queue   chan arrival
	workers sync.WaitGroup

	mu                sync.Mutex
	executed, refused []time.Duration // guarded by mu; latencies, including the wait for a processor
}

// arrival is an operation that waits for a processor.
type arrival struct {
	at    time.Time
	takes time.Duration
	done  *sync.WaitGroup
}

// processors is the number of processors of the machine.
const processors = 2

// refusing is how many times faster than an execution a refusal is.
const refusing = 12

func newMachine(t testing.TB, service time.Duration) *machine {
	m := &machine{service: service, random: rand.New(rand.NewPCG(1, 2)), queue: make(chan arrival, 1<<20)}
	m.Admission = NewAdmission(Capacity{processors: processors, Runnable: func() int {
		return len(m.queue)
	}}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	for range processors {
		m.workers.Go(func() {
			for op := range m.queue {
				m.operation(t, op)
			}
		})
	}
	return m
}

func (m *machine) stop() {
	close(m.queue)
	m.workers.Wait()
}

// capacity returns how many operations the machine can execute per second.
func (m *machine) capacity() float64 { return float64(processors) / m.service.Seconds() }

// operation executes or refuses an operation, on a processor.
func (m *machine) operation(t testing.TB, op arrival) {
	defer op.done.Done()
	if err := m.Shed(); err != nil {
		<-time.After(m.service / refusing)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.refused = append(m.refused, time.Since(op.at))
		return
	}
	if err := m.Acquire(t.Context()); err != nil {
		t.Error(err)
	}
	<-time.After(op.takes)
	m.Release()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.executed = append(m.executed, time.Since(op.at))
}

// send sends n operations at once.
func (m *machine) send(n int, done *sync.WaitGroup) {
	done.Add(n)
	for range n {
		m.queue <- arrival{time.Now(), time.Duration((0.5 + m.random.Float64()) * float64(m.service)), done}
	}
}

// load sends perSecond operations a second, without waiting for them. It returns the latencies of the
// operations after the first tenth of d, sorted.
func (m *machine) load(perSecond float64, d time.Duration) (executed, refused []time.Duration) {
	var all sync.WaitGroup
	warm := time.Now().Add(d / 10)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !warm.IsZero() && time.Now().After(warm) {
			warm = time.Time{}
			m.take()
		}
		<-time.After(time.Duration(m.random.ExpFloat64() / perSecond * float64(time.Second)))
		m.send(1, &all)
	}
	all.Wait()
	return m.take()
}

// take returns the latencies since the last call, sorted.
func (m *machine) take() (executed, refused []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	executed, refused = m.executed, m.refused
	m.executed, m.refused = nil, nil
	slices.Sort(executed)
	slices.Sort(refused)
	return executed, refused
}

func p99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// At four times its capacity the machine executes operations almost as fast as at a tenth of it,
// uses most of the time that refusals leave for executions, and refuses quickly. After the overload
// it is as fast as before.
func TestOverload(t *testing.T) {
	for _, service := range []time.Duration{300 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond} {
		t.Run(service.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, service)
				defer m.stop()
				span := 4000 * service // 8,000 operations at capacity
				before, refused := m.load(m.capacity()/10, span)
				if len(refused) > 0 {
					t.Errorf("%d refused at a tenth of the capacity", len(refused))
				}
				executed, refused := m.load(m.capacity()*4, span)
				possible := m.capacity()*span.Seconds()*0.9 - float64(len(refused))/refusing
				t.Logf("p99 %s at a tenth of the capacity, %s at four times; %.0f%% of what is possible; refused "+
					"after %s (p99)",
					p99(before), p99(executed), float64(len(executed))/possible*100, p99(refused))
				if p99(executed) >= 4*p99(before) {
					t.Errorf("p99 %s in overload, %s at a tenth of the capacity; want less than 4 times as much",
						p99(executed), p99(before))
				}
				if float64(len(executed)) < 0.8*possible {
					t.Errorf("%d executed of %.0f possible, want 80%%", len(executed), possible)
				}
				if p99(refused) >= 4*p99(before) {
					t.Errorf("p99 of refusals is %s, want less than %s", p99(refused), 4*p99(before))
				}
				after, refused := m.load(m.capacity()/10, span)
				if len(refused) > 0 || p99(after) > 2*p99(before) {
					t.Errorf("after the overload p99 %s, before it %s; %d refused", p99(after), p99(before),
						len(refused))
				}
				if n := len(m.slots); n != 0 {
					t.Errorf("%d slots are not released", n)
				}
			})
		})
	}
}

// Clients that retry at once keep the machine busy with refusals; some operations are executed nevertheless.
func TestOverload_ClientsRetryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 2*time.Millisecond)
		defer m.stop()
		end := time.Now().Add(2*starving + 10*time.Second)
		var clients sync.WaitGroup
		for range 500 {
			clients.Go(func() {
				for time.Now().Before(end) {
					var one sync.WaitGroup
					one.Add(1)
					m.queue <- arrival{time.Now(), m.service, &one}
					one.Wait()
				}
			})
		}
		<-time.After(2 * starving)
		m.take()
		clients.Wait()
		executed, refused := m.take()
		perSecond := float64(len(executed)) / 10
		if perSecond < m.capacity()/4 {
			t.Fatalf("%.0f operations per second executed, want %.0f; %d refused", perSecond, m.capacity()/4,
				len(refused)/10)
		}
		t.Logf("%.0f operations per second executed of %.0f, after %s (p99); %d refused", perSecond, m.capacity(),
			p99(executed), len(refused)/10)
	})
}

// A burst is not an overload, nor are a few clients, however slow the machine is.
func TestOverload_BurstIsNotRefused(t *testing.T) {
	for name, test := range map[string]struct {
		service time.Duration
		clients int
	}{
		"many at once":      {200 * time.Microsecond, 400},
		"on a slow machine": {200 * time.Millisecond, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, test.service)
				defer m.stop()
				m.load(m.capacity()/2, 1000*test.service)
				var all sync.WaitGroup
				for range 10 {
					m.send(test.clients, &all)
					all.Wait()
				}
				if _, refused := m.take(); len(refused) > 0 {
					t.Errorf("%d of %d are refused, want none", len(refused), 10*test.clients)
				}
			})
		})
	}
}

// The slots and the operations that wait for one are bounded, an operation that gives up no longer
// counts, and the number of refused operations is logged, not each of them.
func TestAdmission_SlotsAndQueueAreBounded(t *testing.T) {
	const maxWaiting = 50
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Capacity{Executing: 1, Waiting: maxWaiting}, slog.New(slog.NewTextHandler(&log, nil)))
		if err := a.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		refused := make(chan time.Duration, 2*maxWaiting)
		for range 2 * maxWaiting {
			all.Go(func() {
				began := time.Now()
				if err := a.Acquire(t.Context()); !errors.Is(err, ErrOverloaded) {
					t.Error(err)
				}
				refused <- time.Since(began)
			})
		}
		synctest.Wait()
		if n, m := len(refused), int(a.waiting.Load()); n != maxWaiting || m != maxWaiting {
			t.Errorf("%d are refused at once and %d wait, want %d each", n, m, maxWaiting)
		}
		all.Wait()
		if n := a.waiting.Load(); n != 0 {
			t.Errorf("%d operations wait, want 0", n)
		}
		all.Go(func() {
			if err := a.Acquire(t.Context()); err != nil {
				t.Error(err)
			}
			a.Release()
		})
		synctest.Wait()
		a.Release()
		all.Wait()
		testkit.Advance(logInterval)
		logged, lines := 0, strings.Split(strings.TrimSpace(log.String()), "\n")
		for _, line := range lines {
			n := 0
			if _, err := fmt.Sscanf(line[strings.Index(line, "refused="):], "refused=%d", &n); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			logged += n
		}
		if len(lines) != 2 || logged != 2*maxWaiting {
			t.Errorf("%d refusals in %d log lines, want %d in 2: %s", logged, len(lines), 2*maxWaiting, log.String())
		}
		if testkit.Advance(time.Hour); strings.Count(log.String(), "\n") != len(lines) {
			t.Errorf("logged without refusals: %s", log.String())
		}
	})
}

// Two bursts without samples in between are not an overload, and an overload without recent samples
// is over.
func TestOverload_OldSamplesDoNotCount(t *testing.T) {
	runnable := manyRunnable
	a := &Admission{capacity: Capacity{processors: 1, Runnable: func() int { return runnable }}}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	overloadedIn := func(d time.Duration) bool {
		now = now.Add(d)
		return a.overloaded(now)
	}
	if overloadedIn(0) || overloadedIn(time.Hour) || overloadedIn(growing/2) {
		t.Error("a burst is refused")
	}
	if !overloadedIn(growing) {
		t.Error("a queue that does not shrink is not refused")
	}
	runnable = fewRunnable + 1
	if !overloadedIn(calm / 2) {
		t.Error("the overload ends before calm")
	}
	if overloadedIn(time.Hour) {
		t.Error("the overload has not ended after an hour")
	}
	runnable = 2 * manyRunnable
	if overloadedIn(calm) {
		t.Error("a second burst is refused")
	}
	if runnable *= 2; overloadedIn(growing / 2) {
		t.Error("a growing burst is refused too early")
	}
	if runnable--; overloadedIn(growing / 2) {
		t.Error("a shrinking queue is refused too early")
	}
	if !overloadedIn(standing - growing) {
		t.Error("a standing queue is not refused")
	}
}

func TestAdmission_OverloadedAfterTenSecondsOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Capacity{Executing: 1, Waiting: 1}, slog.New(slog.DiscardHandler))
		refuse := func(d time.Duration) {
			for began := time.Now(); time.Since(began) <= d; testkit.Advance(500 * time.Millisecond) {
				_ = a.refuse()
			}
		}
		refuse(5 * time.Second)
		if a.Overloaded() {
			t.Error("overloaded after 5 s of refusals")
		}
		refuse(6 * time.Second)
		if !a.Overloaded() {
			t.Error("not overloaded after 11 s of refusals")
		}
		testkit.Advance(2 * time.Second)
		refuse(time.Second)
		if a.Overloaded() {
			t.Error("overloaded 1 s after a pause of 2 s")
		}
	})
}

// Events execute on half of the processors. One that takes long delays others by slowEvent.
func TestAdmission_EventsExecuteOnHalfOfTheProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		a := NewAdmission(Capacity{processors: 4}, slog.New(slog.DiscardHandler))
		began := func(take time.Duration) (after []time.Duration) {
			var mu sync.Mutex
			var all sync.WaitGroup
			start := time.Now()
			for range 6 {
				all.Go(func() {
					defer a.AcquireEvent(t.Context())()
					mu.Lock()
					after = append(after, time.Since(start))
					mu.Unlock()
					<-time.After(take)
				})
			}
			all.Wait()
			return after
		}
		for _, event := range []struct {
			what string
			take time.Duration
			want []time.Duration
		}{
			{"quick", ms, []time.Duration{0, 0, ms, ms, 2 * ms, 2 * ms}},
			{"slow", time.Minute, []time.Duration{0, 0, slowEvent, slowEvent, 2 * slowEvent, 2 * slowEvent}},
			{"quick again", ms, []time.Duration{0, 0, ms, ms, 2 * ms, 2 * ms}},
		} {
			if got := began(event.take); !slices.Equal(got, event.want) {
				t.Errorf("%s events began after %v, want %v", event.what, got, event.want)
			}
		}

		release1, release2 := a.AcquireEvent(t.Context()), a.AcquireEvent(t.Context())
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		a.AcquireEvent(gone)() // returns
		release1()
		release2()
	})
}
