package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"byline/store/cosmos"
)

// errLost means that a job has changed since it was read: another instance has it, it was enqueued
// again, or it has ended. Only what it is now shows how to go on.
var errLost = errors.New("the job has changed")

// task is a Runner's work on a job.
type task struct {
	r          *Runner
	ctx, quick context.Context // of Run; requests of quick do not wait for the rate, and are cut off farewell after ctx ends
	work       Work
	generation int64
	woken      chan struct{}

	job     Job       // with the progress since the last save
	charged float64   // its RequestCharge when the task began
	saved   time.Time // start of the last save, from which on the claim is valid; zero: none
	dirty   bool      // there is progress since the last save
	due     time.Time // of the next unit; zero: now
	done    bool      // nothing is left but to delete the job

	mu    sync.Mutex
	spent float64 // guarded by mu; RU
}

func newTask(ctx context.Context, r *Runner, j Job, work Work) *task {
	t := &task{r: r, work: work, generation: j.Generation, woken: make(chan struct{}, 1), job: j, charged: j.RequestCharge}
	charge := r.metrics.charge.WithLabelValues(j.Kind)
	t.ctx = cosmos.WithPattern(cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		charge.Add(o.RU)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.spent += o.RU
	}), r.o.Pattern)
	return t
}

// wake ends a wait: the job was enqueued again.
func (t *task) wake() { signal(t.woken) }

// run works on the job, a slice in each turn, until it has ended, is lost, or ctx ends. A claim that
// expires between turns is free to others, who may have fewer jobs.
func (t *task) run() (ended bool) {
	// A write is not cut off at once when ctx ends: release needs its ETag.
	quick, cancel := context.WithCancel(context.WithoutCancel(cosmos.WithoutRate(t.ctx)))
	defer cancel()
	defer context.AfterFunc(t.ctx, func() { time.AfterFunc(farewell, cancel) })()
	t.quick = quick
	for again := retry; t.r.turns.Acquire(t.ctx, 1) == nil; {
		err := t.turn()
		t.r.turns.Release(1)
		wait := max(0, time.Until(t.due))
		switch {
		case errors.Is(err, errLost):
			return false
		case err == nil && t.done:
			if t.job.Items > 0 {
				t.r.o.Logger.Info("job done", logKind, t.job.Kind, logSubject, t.job.Subject, logItems, t.job.Items, logRequestCharge, t.charge())
			}
			return true
		case t.ctx.Err() != nil:
		case err != nil:
			t.r.o.Logger.Warn("job not finished, retrying", logKind, t.job.Kind, logSubject, t.job.Subject, logError, err)
			wait, again = max(wait, again), min(2*again, poll)
		default:
			again = retry
		}
		if !pause(t.ctx, t.woken, wait) && t.ctx.Err() == nil {
			return false
		}
	}
	t.release()
	return false
}

// turn does units for a slice of time, and saves the job or deletes it.
func (t *task) turn() error {
	var failed error
	t.job.Wait, t.due = 0, time.Time{}
	for end := time.Now().Add(slice); t.ctx.Err() == nil && !t.done && failed == nil && t.job.Wait == 0 && time.Now().Before(end); {
		failed = t.unit()
	}
	switch {
	case errors.Is(failed, errLost):
		return failed
	case t.done:
		if err := t.r.leases.Delete(t.quick, t.job.key(), t.job.etag); !gone(err) { // otherwise it has ended: the answer was lost
			return changed("end job", err)
		}
	case t.ctx.Err() != nil: // release saves it
		return failed
	case t.dirty:
		if err := t.save(t.quick, t.r.o.Owner); err != nil {
			return err
		}
	}
	return failed
}

// unit does a unit of work under a valid claim, which it renews meanwhile.
func (t *task) unit() (err error) {
	if time.Since(t.saved) > renewal {
		if err := t.save(t.quick, t.r.o.Owner); err != nil {
			return err
		}
		if time.Since(t.saved) >= expiry { // the answer came late: another instance may have the job
			return errLost
		}
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var step Step
	done := make(chan struct{})
	go func(j Job) {
		defer close(done)
		step, err = t.work(ctx, j)
	}(t.job)
	for wait := renewal - time.Since(t.saved); pause(context.Background(), done, wait); {
		wait = renewal
		if renewed := t.renew(); renewed != nil {
			wait = retry
			if errors.Is(renewed, errLost) || time.Since(t.saved) >= expiry {
				cancel()
				<-done
				return errLost
			}
		}
	}
	if err == nil {
		t.progress(step)
	}
	return err
}

// progress records what a unit has done.
func (t *task) progress(s Step) {
	t.job.Position, t.job.Wait, t.done, t.dirty = s.Position, s.Wait, s.Done, true
	t.job.Items += int64(s.Items)
	if s.Wait > 0 {
		t.due = time.Now().Add(s.Wait)
	}
	t.r.metrics.items.WithLabelValues(t.job.Kind).Add(float64(s.Items))
}

// renew saves the job before the claim expires.
func (t *task) renew() error {
	ctx, cancel := context.WithDeadline(t.quick, t.saved.Add(expiry))
	defer cancel()
	return t.save(ctx, t.r.o.Owner)
}

// release saves the job without an owner, so that another instance need not wait for the claim to
// expire. Errors are harmless.
func (t *task) release() {
	if t.done || time.Since(t.saved) > expiry {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.quick), farewell)
	defer cancel()
	if err := t.save(ctx, ""); err != nil && !errors.Is(err, errLost) {
		t.r.o.Logger.Warn("job not released", logKind, t.job.Kind, logSubject, t.job.Subject, logError, err)
	}
}

// save replaces the job, unless it has changed, and makes owner its owner.
func (t *task) save(ctx context.Context, owner string) error {
	j := t.job
	j.Owner, j.RequestCharge = owner, t.charge()
	j.Renewals++
	item, err := json.Marshal(j)
	if err != nil {
		return err
	}
	began := time.Now()
	if j.etag, err = t.r.leases.Replace(ctx, j.key(), item, j.etag); err != nil {
		return changed("save job", err)
	}
	t.job, t.saved, t.dirty = j, began, false
	return nil
}

// charge returns the request charge of the job.
func (t *task) charge() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.charged + t.spent
}

// changed returns errLost for the failure of a conditional write.
func changed(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case gone(err) || cosmos.HasStatus(err, http.StatusPreconditionFailed):
		return errLost
	}
	return fmt.Errorf("%s: %w", op, err)
}
