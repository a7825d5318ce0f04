package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/internal/cosmostest"
)

// model checks the invariants of jobs. A job walks from 1 to the size of its generation.
type model struct {
	t testing.TB
	w *world

	mu        sync.Mutex
	random    *rand.Rand // guarded by mu
	calm      bool       // guarded by mu; no more faults
	jobs      map[string]Job
	saved     map[string]time.Time               // time of the owner's last save, by id
	ended     map[string]int64                   // the newest generation that has ended, by subject
	newest    map[string]int64                   // the newest generation that was enqueued, by subject
	sizes     map[string]map[int64]int           // by subject and generation
	walked    map[string]map[int64]map[int]int64 // count of each step, by subject, generation and number
	takeovers int
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{t: t, w: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), jobs: map[string]Job{},
		saved: map[string]time.Time{}, ended: map[string]int64{},
		newest: map[string]int64{}, sizes: map[string]map[int64]int{}, walked: map[string]map[int64]map[int]int64{}}
	m.w.wrote = m.wrote
	return m
}

// chance returns true with probability 1/n while there are faults, then false.
func (m *model) chance(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.calm && m.random.IntN(n) == 0
}

// between returns a number from low to high.
func (m *model) between(low, high int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return low + m.random.IntN(high-low+1)
}

// wrote checks a write of a job.
func (m *model) wrote(id string, j *Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, there := m.jobs[id]
	switch {
	case j == nil:
		for i := 1; i <= m.sizes[before.Subject][before.Generation]; i++ {
			if m.walked[before.Subject][before.Generation][i] == 0 {
				m.t.Errorf("%s has ended in generation %d without step %d", id, before.Generation, i)
			}
		}
		delete(m.jobs, id)
		m.ended[before.Subject] = max(m.ended[before.Subject], before.Generation)
		return
	case !there:
	case !j.Created.Equal(before.Created):
		m.t.Errorf("%s was created over another", id)
	case j.Generation < before.Generation:
		m.t.Errorf("%s went from generation %d to %d", id, before.Generation, j.Generation)
	case j.Generation > before.Generation:
		if j.Position != "" || j.Renewals != before.Renewals {
			m.t.Errorf("a new generation begins with %+v, want no position and the same renewals", j)
		}
	case j.Renewals != before.Renewals+1:
		m.t.Errorf("a save of %s overwrote another: %+v after %+v", id, j, before)
	case number(j.Position) < number(before.Position):
		m.t.Errorf("%s went from %q to %q in generation %d", id, before.Position, j.Position, j.Generation)
	}
	if there && j.Renewals != before.Renewals {
		if before.Owner != "" && j.Owner != "" && j.Owner != before.Owner {
			m.takeovers++
			if age := time.Since(m.saved[id]); age < expiry {
				m.t.Errorf("%s took %s from %s, which saved it %v ago", j.Owner, id, before.Owner, age)
			}
		}
		m.saved[id] = time.Now()
	}
	m.jobs[id] = *j
}

// number returns the number of a position.
func number(position string) int {
	n, _ := strconv.Atoi(position)
	return n
}

// begins checks that a unit of a job may begin.
func (m *model) begins(j Job) (size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, there := m.jobs[j.ID]
	if !there || !now.Created.Equal(j.Created) {
		m.t.Errorf("a unit of %s begins after it has ended", j.ID)
	}
	return m.sizes[j.Subject][j.Generation]
}

// walks records a step.
func (m *model) walks(j Job, i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.walked[j.Subject][j.Generation][i]++
}

// enqueue enqueues a newer generation of a subject until that is confirmed, by one process or another.
func (m *model) enqueue(by []*modelProcess, subject string) {
	m.mu.Lock()
	m.newest[subject]++
	generation := m.newest[subject]
	if generation == 1 {
		m.sizes[subject], m.walked[subject] = map[int64]int{}, map[int64]map[int]int64{}
	}
	m.sizes[subject][generation], m.walked[subject][generation] = m.random.IntN(40), map[int]int64{}
	m.mu.Unlock()
	for range 50 {
		if by[m.between(0, len(by)-1)].Enqueue(context.Background(), "walk", subject, generation) == nil {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	m.w.enqueue(subject, generation)
}

// modelProcess is a process with faults.
type modelProcess struct {
	*process
	cut    atomic.Bool  // all its requests fail; the test then kills it
	frozen atomic.Int64 // end of its pause, in Unix nanoseconds
}

func (m *model) start(owner string) *modelProcess {
	p := &modelProcess{}
	thaw := func() {
		if d := time.Until(time.Unix(0, p.frozen.Load())); d > 0 {
			<-time.After(d)
		}
	}
	p.process = m.w.start(owner, func(ctx context.Context, j Job) (Step, error) {
		size := m.begins(j)
		at := number(j.Position)
		for range m.between(1, 5) {
			if !pause(ctx, nil, time.Duration(m.between(20, 300))*time.Millisecond) {
				return Step{}, ctx.Err()
			}
			thaw()
			if at < size {
				at++
				m.walks(j, at)
			}
		}
		s := Step{Items: at - number(j.Position), Position: strconv.Itoa(at), Done: at == size}
		switch {
		case m.chance(50):
			return Step{}, errors.New("an item cannot be written")
		case m.chance(50):
			p.cut.Store(true) // between work and save
		case m.chance(50):
			p.frozen.Store(time.Now().Add(time.Duration(m.between(1000, 12000)) * time.Millisecond).UnixNano())
			thaw()
		case m.chance(10):
			s.Wait = 3 * time.Second
		}
		return s, nil
	}, func(on *process, _ *Options) {
		on.before = func(*http.Request) error {
			thaw()
			if p.cut.Load() || m.chance(50) {
				return errors.New("no connection")
			}
			return nil
		}
		on.after = func(*http.Request) error {
			thaw()
			if p.cut.Load() || m.chance(50) {
				return errors.New("the response is lost")
			}
			return nil
		}
	})
	return p
}

// Processes work on jobs, and crash, freeze for longer than their claims are valid, lose responses, and stop,
// while jobs are enqueued repeatedly. Each job does all steps of its last generation; its position never
// goes back; a claim is not taken from an owner that renews it; no job is lost or runs after it has ended.
func TestRunner_Model(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	for range testkit.Pick(15, 500) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) { runModel(t, newModel(t, seed)) })
		})
	}
}

func runModel(t *testing.T, m *model) {
	subjects := []string{"a", "b", "c", "d", "e", "f"}
	var processes []*modelProcess
	for i := range 3 {
		processes = append(processes, m.start(fmt.Sprint("process-", i)))
	}
	restarts := 0
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		<-time.After(time.Duration(m.between(0, 2000)) * time.Millisecond)
		i := m.between(0, len(processes)-1)
		p := processes[i]
		switch m.between(0, 9) {
		case 0, 1, 2, 3, 4:
			m.enqueue(processes, subjects[m.between(0, len(subjects)-1)])
		case 5: // enqueue an ended generation again
			subject := subjects[m.between(0, len(subjects)-1)]
			m.mu.Lock()
			ended := m.ended[subject]
			m.mu.Unlock()
			_ = p.Enqueue(context.Background(), "walk", subject, ended)
		case 6:
			p.stop()
		case 7:
			p.cut.Store(true)
			<-time.After(time.Duration(m.between(0, 3000)) * time.Millisecond)
		case 8:
			p.frozen.Store(time.Now().Add(time.Duration(m.between(1000, 12000)) * time.Millisecond).UnixNano())
		}
		for i, p := range processes {
			if p.cut.Load() || p.ended() {
				p.stop()
				restarts++
				owner := p.o.Owner
				if m.between(0, 1) == 0 {
					owner = fmt.Sprint("process-", restarts, "-", i)
				}
				processes[i] = m.start(owner)
			}
		}
	}
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
	for i, p := range processes {
		if p.cut.Load() {
			p.stop()
			processes[i] = m.start("the last")
		}
	}
	testkit.Advance(5 * time.Minute)
	if err := m.w.ended(); err != nil {
		t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	walks := int64(0)
	for subject, newest := range m.newest {
		if m.ended[subject] != newest {
			t.Errorf("%s has ended in generation %d, want %d", subject, m.ended[subject], newest)
		}
		for _, all := range m.walked[subject] {
			for _, n := range all {
				walks += n
			}
		}
	}
	t.Logf("%d steps, %d restarts, %d takeovers", walks, restarts, m.takeovers)
}
