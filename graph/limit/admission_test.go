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

	"byline/internal/waittest"
)

// machine executes operations on two processors, each from beginning to end, in the
// order in which they come. Its time is that of a synctest bubble.
type machine struct {
	*Admission
	service time.Duration // of an operation, on average
	random  *rand.Rand
	queue   chan arrival
	workers sync.WaitGroup

	mu                sync.Mutex
	answered, refused []time.Duration // guarded by mu; how long they took, with the time they waited
}

// arrival is an operation that waits for a processor.
type arrival struct {
	at    time.Time
	takes time.Duration
	done  *sync.WaitGroup
}

// processors is how many the machine has.
const processors = 2

// refusing takes the processor so many times shorter than executing.
const refusing = 12

func newMachine(t testing.TB, service time.Duration) *machine {
	m := &machine{service: service, random: rand.New(rand.NewPCG(1, 2)), queue: make(chan arrival, 1<<20)}
	m.Admission = NewAdmission(Capacity{processors: processors, Runnable: func() int { return len(m.queue) }}, slog.New(slog.NewTextHandler(t.Output(), nil)))
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

// capacity is how many operations it can answer in a second.
func (m *machine) capacity() float64 { return float64(processors) / m.service.Seconds() }

// operation has a processor.
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
	m.answered = append(m.answered, time.Since(op.at))
}

// send has so many operations come at once.
func (m *machine) send(n int, done *sync.WaitGroup) {
	done.Add(n)
	for range n {
		m.queue <- arrival{time.Now(), time.Duration((0.5 + m.random.Float64()) * float64(m.service)), done}
	}
}

// load sends so many operations a second, whatever becomes of them. It returns how long
// it took to answer or refuse those that came after the first tenth, sorted.
func (m *machine) load(perSecond float64, d time.Duration) (answered, refused []time.Duration) {
	var all sync.WaitGroup
	notice := time.Now().Add(d / 10)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !notice.IsZero() && time.Now().After(notice) {
			notice = time.Time{}
			m.take()
		}
		<-time.After(time.Duration(m.random.ExpFloat64() / perSecond * float64(time.Second)))
		m.send(1, &all)
	}
	all.Wait()
	return m.take()
}

func (m *machine) take() (answered, refused []time.Duration) {
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
// it has little to do, it answers most of what it can beside refusing the rest, and it
// refuses soon; and when the load is over, all is as before.
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
				answered, refused := m.load(m.capacity()*4, span)
				possible := m.capacity()*span.Seconds()*0.9 - float64(len(refused))/refusing
				t.Logf("p99 %s at a tenth of the capacity, %s at four times; %.0f%% of what is possible; refused after %s (p99)",
					p99(before), p99(answered), float64(len(answered))/possible*100, p99(refused))
				if p99(answered) >= 4*p99(before) {
					t.Errorf("p99 %s, and %s unloaded", p99(answered), p99(before))
				}
				if float64(len(answered)) < 0.8*possible {
					t.Errorf("%d answered, %.0f are possible", len(answered), possible)
				}
				if p99(refused) >= 4*p99(before) {
					t.Errorf("refused after %s", p99(refused))
				}
				after, refused := m.load(m.capacity()/10, span)
				if len(refused) > 0 || p99(after) > 2*p99(before) {
					t.Errorf("after the load p99 %s, before it %s; %d refused", p99(after), p99(before), len(refused))
				}
				if n := len(m.slots); n != 0 {
					t.Errorf("%d execute", n)
				}
			})
		})
	}
}

// Clients that repeat at once what was refused keep the machine busy with refusing; some are answered nevertheless.
func TestOverload_ClientsRepeatAtOnce(t *testing.T) {
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
		answered, refused := m.take()
		perSecond := float64(len(answered)) / 10
		if perSecond < m.capacity()/4 {
			t.Fatalf("%.0f are answered a second, %d refused", perSecond, len(refused)/10)
		}
		t.Logf("%.0f answered a second of %.0f, after %s (p99); %d refused", perSecond, m.capacity(), p99(answered), len(refused)/10)
	})
}

// A burst is no overload, nor are a few clients, however slow the machine is.
func TestBurst(t *testing.T) {
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
					t.Errorf("%d of %d are refused", len(refused), 10*test.clients)
				}
			})
		})
	}
}

// No more than may execute do; so many wait for their turn, one who gives up is
// forgotten, and the operator hears of the refused, but not of each.
func TestAdmissionIsBounded(t *testing.T) {
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
			t.Errorf("%d are refused at once, %d wait", n, m)
		}
		all.Wait()
		if n := a.waiting.Load(); n != 0 {
			t.Errorf("%d wait", n)
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
		waittest.Advance(logInterval)
		told, lines := 0, strings.Split(strings.TrimSpace(log.String()), "\n")
		for _, line := range lines {
			n := 0
			if _, err := fmt.Sscanf(line[strings.Index(line, "refused="):], "refused=%d", &n); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			told += n
		}
		if len(lines) != 2 || told != 2*maxWaiting {
			t.Errorf("told of %d refused, want %d: %s", told, 2*maxWaiting, log.String())
		}
		if waittest.Advance(time.Hour); strings.Count(log.String(), "\n") != len(lines) {
			t.Errorf("told of nothing: %s", log.String())
		}
	})
}

// Two bursts, with nothing known of the time between, are no overload; and an overload of which
// nothing was seen for long is over.
func TestOverload_OldSamplesDoNotCount(t *testing.T) {
	runnable := manyRunnable
	a := &Admission{capacity: Capacity{processors: 1, Runnable: func() int { return runnable }}}
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	look := func(later time.Duration) bool {
		now = now.Add(later)
		return a.overloaded(now)
	}
	if look(0) || look(time.Hour) || look(growing/2) {
		t.Error("a burst is refused")
	}
	if !look(growing) {
		t.Error("what does not become less is not refused")
	}
	runnable = fewRunnable + 1
	if !look(calm / 2) {
		t.Error("the overload is over at once")
	}
	if look(time.Hour) {
		t.Error("after an hour it still is not")
	}
	runnable = 2 * manyRunnable
	if look(calm) {
		t.Error("a burst is refused")
	}
	if runnable *= 2; look(growing / 2) {
		t.Error("a burst of which the first half has come is refused")
	}
	if runnable--; look(growing / 2) {
		t.Error("what becomes less is refused at once")
	}
	if !look(standing - growing) {
		t.Error("what stands for long is not refused")
	}
}

func TestAdmission_OverloadedWhenItRefusesForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Capacity{Executing: 1, Waiting: 1}, slog.New(slog.DiscardHandler))
		refuse := func(d time.Duration) {
			for began := time.Now(); time.Since(began) <= d; waittest.Advance(500 * time.Millisecond) {
				_ = a.refuse()
			}
		}
		refuse(5 * time.Second)
		if a.Overloaded() {
			t.Error("after 5 s")
		}
		refuse(6 * time.Second)
		if !a.Overloaded() {
			t.Error("not after 11 s")
		}
		waittest.Advance(2 * time.Second)
		refuse(time.Second)
		if a.Overloaded() {
			t.Error("after a pause")
		}
	})
}

// Events are delivered on half of the processors, and slow clients keep others waiting once.
func TestDelivery_HalfOfTheProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		a := NewAdmission(Capacity{processors: 4}, slog.New(slog.DiscardHandler))
		subscriptions := make([]Delivery, 6)
		for i := range subscriptions {
			subscriptions[i].Admission = a
		}
		began := func(take time.Duration) (after []time.Duration) {
			var mu sync.Mutex
			var all sync.WaitGroup
			start := time.Now()
			for i := range subscriptions {
				all.Go(func() {
					defer subscriptions[i].Begin(t.Context())()
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
			{"slow", time.Minute, []time.Duration{0, 0, slowDelivery, slowDelivery, 2 * slowDelivery, 2 * slowDelivery}},
			{"after slow ones", ms, make([]time.Duration, 6)},
			{"quick again", ms, []time.Duration{0, 0, ms, ms, 2 * ms, 2 * ms}},
		} {
			if have := began(event.take); !slices.Equal(have, event.want) {
				t.Errorf("%s deliveries began after %v, want %v", event.what, have, event.want)
			}
		}

		end1, end2 := subscriptions[0].Begin(t.Context()), subscriptions[1].Begin(t.Context())
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		subscriptions[2].Begin(gone)() // returns
		end1()
		end2()
	})
}
