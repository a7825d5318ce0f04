package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"byline/internal/testkit"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
)

// steps is work of some units of 300 ms, which it records as <subject>:<position>.
type steps struct {
	units int

	mu   sync.Mutex
	done []string // guarded by mu
}

func (s *steps) work(ctx context.Context, j Job) (Step, error) {
	if !pause(ctx, nil, 300*time.Millisecond) {
		return Step{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := number(j.Position) + 1
	s.done = append(s.done, fmt.Sprint(j.Subject, ":", at))
	return Step{Items: 1, Position: strconv.Itoa(at), Done: at == s.units}, nil
}

func (s *steps) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.done)
}

// run runs a test on the fake clock.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// until waits until condition holds, at most for limit, and returns how long it waited.
func until(t *testing.T, limit time.Duration, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > limit {
			t.Fatalf("the condition does not hold after %v", limit)
		}
		testkit.Advance(10 * time.Millisecond)
	}
	return time.Since(began)
}

func TestRunner_RunsEachUnitOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s, metrics := &steps{units: 10}, prometheus.NewRegistry()
		var mu sync.Mutex
		saved := []string{} // guarded by mu
		w.wrote = func(_ string, j *Job) {
			mu.Lock()
			defer mu.Unlock()
			if j == nil {
				saved = append(saved, "ended")
			} else {
				saved = append(saved, fmt.Sprint(j.Position, " of ", j.Generation, " by ", j.Owner))
			}
		}
		p := w.start("a", s.work, func(_ *process, o *Options) { o.Metrics = metrics })
		testkit.Advance(time.Second)
		if err := p.Enqueue(t.Context(), "walk", "x", 7); err != nil {
			t.Fatal(err)
		}
		if took := until(t, 5*time.Second, func() bool { return w.ended() == nil }); took > 3100*time.Millisecond {
			t.Errorf("10 units of 300 ms took %v, want at most 3.1 s", took)
		}
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("x:", i+1))
		}
		if diff := cmp.Diff(want, s.all()); diff != "" {
			t.Error(diff)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{" of 7 by ", " of 7 by a", "4 of 7 by a", "8 of 7 by a", "ended"},
			saved); diff != "" {
			t.Error(diff)
		}
		testkit.Until(t, func() error { // the runner updates its metrics after the delete of the job
			return testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP byline_job_items_total Items that jobs of this instance have done.
# TYPE byline_job_items_total counter
byline_job_items_total{kind="walk"} 10
# HELP byline_jobs Jobs that are not done, of all instances, as far as this one knows.
# TYPE byline_jobs gauge
byline_jobs{kind="walk"} 0
`), "byline_job_items_total", "byline_jobs")
		})
	})
}

// An instance that stops while a unit runs returns within a second and releases its job. Another continues
// from its position at the next listing.
func TestRunner_StopReleasesJob(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := &steps{units: 30}
		a := w.start("a", s.work, nil)
		if err := a.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(1500 * time.Millisecond)
		other := &steps{units: 30}
		w.start("c", other.work, nil)
		testkit.Advance(2 * time.Second)
		if n := len(other.all()); n > 0 {
			t.Fatalf("two instances work on one job: %d units", n)
		}
		w.stopsAndReleases(a, s)
		took := until(t, 10*time.Second, func() bool { return len(other.all()) > 0 })
		if took > listInterval+time.Second || other.all()[0] != fmt.Sprint("x:", len(s.all())+1) {
			t.Errorf("the other instance continued after %v, from %s", took, other.all()[0])
		}
	})
}

// An instance that stops while it saves its job waits for the response, as the release needs its ETag.
func TestRunner_StopDuringSave(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := &steps{units: 30}
		var saving atomic.Bool
		a := w.start("a", s.work, func(p *process, _ *Options) {
			p.after = func(r *http.Request) error {
				if r.Method != http.MethodPut || len(s.all()) == 0 || saving.Swap(true) {
					return nil
				}
				pause(r.Context(), nil, 100*time.Millisecond)
				return r.Context().Err()
			}
		})
		if err := a.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		until(t, 10*time.Second, saving.Load)
		w.stopsAndReleases(a, s)
	})
}

// An instance that stops during the last unit deletes the job.
func TestRunner_StopDuringLastUnit(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var working atomic.Bool
		a := w.start("a", func(ctx context.Context, _ Job) (Step, error) {
			working.Store(true)
			<-ctx.Done()
			return Step{Items: 1, Done: true}, nil
		}, nil)
		if err := a.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		until(t, 10*time.Second, working.Load)
		a.stop()
		if err := w.ended(); err != nil {
			t.Error(err)
		}
	})
}

// stopsAndReleases checks that a process stops within a second and releases its job with its position.
func (w *world) stopsAndReleases(p *process, s *steps) {
	w.t.Helper()
	began := time.Now()
	p.stop()
	if took := time.Since(began); took > time.Second {
		w.t.Errorf("stopped after %v, want at most 1 s", took)
	}
	if j := w.read("walk.x"); j.Owner != "" || number(j.Position) != len(s.all()) {
		w.t.Errorf("%d units are done, but the job is %+v", len(s.all()), j)
	}
}

// The job of a killed instance is taken over once its claim has expired.
func TestRunner_TakeoverAfterExpiry(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s, other := &steps{units: 30}, &steps{units: 30}
		var killed atomic.Bool
		a := w.start("a", s.work, func(p *process, _ *Options) {
			p.before = func(*http.Request) error {
				if killed.Load() {
					return errors.New("killed")
				}
				return nil
			}
		})
		if err := a.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(time.Second)
		w.start("b", other.work, nil)
		testkit.Advance(3 * time.Second)
		killed.Store(true)
		a.stop()
		at := w.read("walk.x").Position
		took := until(t, time.Minute, func() bool { return len(other.all()) > 0 })
		if took < expiry-slice-renewal || took > expiry+2*listInterval ||
			other.all()[0] != fmt.Sprint("x:", number(at)+1) {
			t.Errorf("the other instance continued after %v, from %s; the saved position was %s", took, other.all()[0],
				at)
		}
	})
}

// The claim of an instance is renewed during a long unit.
func TestRunner_RenewsDuringUnit(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var units atomic.Int64
		slow := func(ctx context.Context, _ Job) (Step, error) {
			units.Add(1)
			pause(ctx, nil, 20*time.Second)
			return Step{Done: true}, ctx.Err()
		}
		a := w.start("a", slow, nil)
		w.start("b", slow, nil)
		if err := a.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		until(t, time.Minute, func() bool { return w.ended() == nil })
		if n := units.Load(); n != 1 {
			t.Errorf("%d units have begun, want 1", n)
		}
	})
}

// A small job need not wait for large, failing or waiting ones. Malformed jobs and those of unknown kinds are
// ignored.
func TestRunner_Fairness(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		long, small := &steps{units: 1e6}, &steps{units: 1}
		var failures, skipped atomic.Int64
		p := w.start("a", long.work, func(_ *process, o *Options) {
			o.Kinds["small"] = small.work
			o.Kinds["failing"] = func(context.Context, Job) (Step, error) {
				failures.Add(1)
				return Step{}, errors.New("it fails")
			}
			o.Kinds["waiting"] = func(context.Context, Job) (Step, error) { return Step{Wait: time.Hour}, nil }
			o.Skipped = func([]byte, error) { skipped.Add(1) }
		})
		for i := range 8 {
			for _, kind := range []string{"walk", "failing", "waiting", "unknown"} {
				if err := p.Enqueue(t.Context(), kind, fmt.Sprint(i), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.leases.Create(t.Context(), "small.y",
			[]byte(`{"id":"small.y","kind":"small","subject":"y","generation":"many"}`)); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(30 * time.Second)
		if n := failures.Load(); n < 8*3 || n > 8*6 {
			t.Errorf("%d attempts of 8 failing jobs, want 24 to 48", n)
		}
		begun := map[string]int{}
		for _, step := range long.all() {
			begun[step[:1]]++
		}
		for i := range 8 {
			if n := begun[strconv.Itoa(i)]; n < 20 || n > 80 {
				t.Errorf("job %d has begun %d units, want 20 to 80; all: %v", i, n, begun)
			}
		}
		if err := p.Enqueue(t.Context(), "small", "x", 1); err != nil {
			t.Fatal(err)
		}
		took := until(t, time.Minute, func() bool { return len(small.all()) > 0 })
		if took > 5*time.Second {
			t.Errorf("a small job waited %v, want at most 5 s", took)
		}
		if skipped.Load() == 0 {
			t.Error("Skipped was not called for the malformed job")
		}
		if err := p.Enqueue(t.Context(), "small", "y", 1); err != nil {
			t.Fatal(err)
		}
		until(t, 10*time.Second, func() bool { return slices.Contains(small.all(), "y:1") })
		all, err := p.List(t.Context())
		if n := len(all); n != 32 || err != nil {
			t.Errorf("List returned %d jobs, want 32; error %v", n, err)
		}
	})
}

// A job that is enqueued again restarts at once if the generation is newer, and otherwise continues.
func TestRunner_EnqueuedAgain(t *testing.T) {
	for _, tt := range []struct {
		name       string
		generation int64
		want       []string // the units that begin within a second
	}{
		{"same generation -> continues", 5, nil},
		{"older generation -> continues", 4, nil},
		{"newer generation -> restarts", 6, []string{"x:1", "x:2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				s := &steps{units: 3}
				p := w.start("a", func(ctx context.Context, j Job) (Step, error) {
					step, err := s.work(ctx, j)
					if number(step.Position) == 2 {
						step.Wait = 10 * time.Second
					}
					return step, err
				}, nil)
				if err := p.Enqueue(t.Context(), "walk", "x", 5); err != nil {
					t.Fatal(err)
				}
				testkit.Advance(5 * time.Second)
				if err := p.Enqueue(t.Context(), "walk", "x", tt.generation); err != nil {
					t.Fatal(err)
				}
				testkit.Advance(time.Second)
				if diff := cmp.Diff(append([]string{"x:1", "x:2"}, tt.want...), s.all()); diff != "" {
					t.Error(diff)
				}
				until(t, 20*time.Second, func() bool { return w.ended() == nil })
				if diff := cmp.Diff(append(append([]string{"x:1", "x:2"}, tt.want...), "x:3"), s.all()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// The wait of a job ends although every instance stops before it.
func TestRunner_WaitAcrossRestarts(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.enqueue("x", 1)
		work := func(_ context.Context, j Job) (Step, error) {
			now := int(time.Now().Unix())
			end := number(j.Position)
			if end == 0 {
				end = now + 20
			}
			return Step{Position: strconv.Itoa(end), Wait: time.Duration(end-now) * time.Second, Done: now >= end}, nil
		}
		for i := range 8 {
			p := w.start(fmt.Sprint("process-", i), work, nil)
			testkit.Advance(4 * time.Second)
			p.stop()
		}
		if err := w.ended(); err != nil {
			t.Error(err)
		}
	})
}

// A job has ended for the instance whose delete succeeded without a response.
func TestRunner_LostDeleteResponse(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var lost atomic.Int64
		var log bytes.Buffer
		s := &steps{units: 1}
		p := w.start("a", s.work, func(p *process, o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			p.after = func(r *http.Request) error {
				if r.Method == http.MethodDelete && lost.Add(1) == 1 {
					return errors.New("the response is lost")
				}
				return nil
			}
		})
		if err := p.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(10 * time.Second)
		p.stop()
		if n := strings.Count(log.String(), "job done"); n != 1 || lost.Load() < 2 {
			t.Errorf("%d deletes, want at least 2; the log has %d \"job done\", want 1: %s", lost.Load(), n, &log)
		}
	})
}

// The listings of many jobs leave RU and time to run them.
func TestRunner_ManyJobs(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for i := range 2000 {
			id := fmt.Sprint("unknown.", i)
			if err := w.leases.Create(t.Context(), id,
				fmt.Appendf(nil, `{"id":%q,"kind":"unknown","subject":"%d","generation":1}`, id, i)); err != nil {
				t.Fatal(err)
			}
		}
		var listings atomic.Int64
		s := &steps{units: 30}
		p := w.start("a", nil, func(p *process, o *Options) {
			o.RU = 10
			o.Kinds["walk"] = func(ctx context.Context, j Job) (Step, error) {
				if _, err := p.leases.Read(ctx, cosmos.Key{Partition: "none", ID: "none"}); err != nil {
					return Step{}, err
				}
				return s.work(ctx, j)
			}
			p.before = func(r *http.Request) error {
				if r.Header.Get("x-ms-documentdb-query") != "" && r.Header.Get("x-ms-continuation") == "" {
					listings.Add(1)
					pause(r.Context(), nil, time.Second)
				}
				return nil
			}
		})
		if err := p.Enqueue(t.Context(), "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		took := until(t, 10*time.Minute, func() bool { return len(s.all()) == 30 })
		if took > 90*time.Second {
			t.Errorf("30 units of 1 RU, and saves of 10 RU, took %v at 10 RU/s", took)
		}
		if n := listings.Load(); n > int64(2+took/(10*time.Second)) {
			t.Errorf("%d listings of a second each in %v", n, took)
		}
		t.Logf("%v, %d listings", took, listings.Load())
	})
}

// The request charge of a job is the sum over all instances that have worked on it.
func TestRunner_RecordsCharge(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := &steps{units: 20}
		ctx := context.Background()
		costly := func(p *process) Work {
			return func(ctx context.Context, j Job) (Step, error) {
				if _, err := p.leases.Read(ctx, cosmos.Key{Partition: "none", ID: "none"}); err != nil {
					return Step{}, err
				}
				return s.work(ctx, j)
			}
		}
		start := func(owner string) *process {
			return w.start(owner, nil, func(p *process, o *Options) { o.Kinds["walk"] = costly(p) })
		}
		a := start("a")
		if err := a.Enqueue(ctx, "walk", "x", 1); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(1300 * time.Millisecond)
		a.stop()
		before := *w.read("walk.x")
		if before.Items != 4 || before.RequestCharge < 4+10 {
			t.Errorf("got %+v, want 4 items and at least 14 RU", before)
		}
		last := before
		w.wrote = func(_ string, j *Job) {
			if j != nil {
				last = *j
			}
		}
		start("b")
		until(t, 10*time.Second, func() bool { return w.ended() == nil })
		if last.RequestCharge <= before.RequestCharge {
			t.Errorf("got %v RU, want more than %v", last.RequestCharge, before.RequestCharge)
		}
	})
}

// properties reads a job.
func (w *world) properties(id string) (properties map[string]any) {
	w.t.Helper()
	item, err := w.leases.Read(context.Background(), cosmos.Key{Partition: id, ID: id})
	if err == nil {
		err = json.Unmarshal(item.Value, &properties)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return properties
}

// A job has the version of its format, and its saves keep properties that this version does not know. A job of a
// later version is left to instances of that version.
func TestRunner_SchemaVersion(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		known, later := "walk.a", "walk.b"
		for _, subject := range []string{"a", "b"} {
			w.enqueue(subject, 1)
			if got := w.properties("walk." + subject)["schemaVersion"]; got != 1.0 {
				t.Errorf("a new job has the schemaVersion %v", got)
			}
		}
		for id, version := range map[string]int{known: 1, later: 2} {
			var p cosmos.Patch
			p.Set("/unknown", "kept")
			p.Set("/schemaVersion", version)
			if _, err := w.leases.Patch(t.Context(), cosmos.Key{Partition: id, ID: id}, p); err != nil {
				t.Fatal(err)
			}
		}
		before := w.properties(later)
		s := &steps{units: 1000}
		w.start("one", s.work, nil)
		until(t, time.Minute, func() bool { return w.properties(known)["renewals"].(float64) > 2 })
		if got := w.properties(known); got["unknown"] != "kept" || got["schemaVersion"] != 1.0 ||
			got["owner"] != "one" {
			t.Errorf("got %v", got)
		}
		if diff := cmp.Diff(before, w.properties(later)); diff != "" {
			t.Error(diff)
		}
		if slices.ContainsFunc(s.all(), func(unit string) bool { return strings.HasPrefix(unit, "b:") }) {
			t.Errorf("worked on a job of a later version: %v", s.all())
		}
	})
}
