package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"byline/internal/itemjson"
	"byline/store/cosmos"
)

// errLost means that a job has changed since it was read: another instance owns it, it was enqueued again, or
// it has ended. It must be read again.
var errLost = errors.New("the job has changed")

// task is a Runner's work on a job.
type task struct {
	r          *Runner
	ctx        context.Context // of Run
	writeCtx   context.Context // for writes of the job: not limited by the rate, and canceled stopTimeout after ctx
	work       Work
	generation int64
	woken      chan struct{}

	job     Job       // includes the progress since the last save
	charged float64   // RequestCharge of the job when the task began
	saved   time.Time // start of the last save, from which the claim is valid; zero: none
	dirty   bool      // there is progress since the last save
	due     time.Time // when the next unit may begin; zero: now
	done    bool      // the work has ended, and the job must be deleted

	mu    sync.Mutex
	spent float64 // guarded by mu; RU
}

func newTask(ctx context.Context, r *Runner, j Job, work Work) *task {
	t := &task{r: r, work: work, generation: j.Generation, woken: make(chan struct{}, 1), job: j,
		charged: j.RequestCharge}
	charge := r.metrics.charge.WithLabelValues(j.Kind)
	t.ctx = cosmos.WithPattern(cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		charge.Add(o.RU)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.spent += o.RU
	}), r.o.Pattern)
	return t
}

// wake ends the wait of a job that was enqueued again.
func (t *task) wake() { signal(t.woken) }

// run works on the job in slices until it has ended, is lost, or ctx ends. It does not renew the claim while
// it waits for a slot, so that an instance with fewer jobs can take over.
func (t *task) run() (ended bool) {
	// A write is not canceled at once when ctx ends, as release needs its ETag.
	writeCtx, cancel := context.WithCancel(context.WithoutCancel(cosmos.WithoutRate(t.ctx)))
	defer cancel()
	defer context.AfterFunc(t.ctx, func() { time.AfterFunc(stopTimeout, cancel) })()
	t.writeCtx = writeCtx
	for backoff := retry; t.r.slots.Acquire(t.ctx, 1) == nil; {
		err := t.workSlice()
		t.r.slots.Release(1)
		wait := max(0, time.Until(t.due))
		switch {
		case errors.Is(err, errLost):
			return false
		case err == nil && t.done:
			if t.job.Items > 0 {
				t.r.o.Logger.Info("job done", logKind, t.job.Kind, logSubject, t.job.Subject, logItems, t.job.Items,
					logRequestCharge, t.charge())
			}
			return true
		case t.ctx.Err() != nil:
		case err != nil:
			t.r.o.Logger.Warn("job not finished, retrying", logKind, t.job.Kind, logSubject, t.job.Subject, logError,
				err)
			wait, backoff = max(wait, backoff), min(2*backoff, idleListInterval)
		default:
			backoff = retry
		}
		if !pause(t.ctx, t.woken, wait) && t.ctx.Err() == nil {
			return false
		}
	}
	t.release()
	return false
}

// workSlice does units for a slice of time, and then saves the job or deletes it.
func (t *task) workSlice() error {
	var failed error
	t.job.Wait, t.due = 0, time.Time{}
	for end := time.Now().Add(slice); t.ctx.Err() == nil && !t.done && failed == nil && t.job.Wait == 0 &&
		time.Now().Before(end); {
		failed = t.unit()
	}
	switch {
	case errors.Is(failed, errLost):
		return failed
	case t.done:
		// The job is gone if an earlier delete has succeeded without a response.
		if err := t.r.leases.Delete(t.writeCtx, t.job.key(), t.job.etag); !gone(err) {
			return writeError("end job", err)
		}
	case t.ctx.Err() != nil: // release saves it
		return failed
	case t.dirty:
		if err := t.save(t.writeCtx, t.r.o.Owner); err != nil {
			return err
		}
	}
	return failed
}

// unit does a unit of work, and keeps the claim valid during it.
func (t *task) unit() (err error) {
	if time.Since(t.saved) > renewal {
		if err := t.save(t.writeCtx, t.r.o.Owner); err != nil {
			return err
		}
		if time.Since(t.saved) >= expiry { // a late response: another instance may own the job
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

// progress records the result of a unit.
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
	ctx, cancel := context.WithDeadline(t.writeCtx, t.saved.Add(expiry))
	defer cancel()
	return t.save(ctx, t.r.o.Owner)
}

// release saves the job without an owner, so that another instance need not wait for the claim to expire. It
// only logs errors.
func (t *task) release() {
	if t.done || time.Since(t.saved) > expiry {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.writeCtx), stopTimeout)
	defer cancel()
	if err := t.save(ctx, ""); err != nil && !errors.Is(err, errLost) {
		t.r.o.Logger.Warn("job not released", logKind, t.job.Kind, logSubject, t.job.Subject, logError, err)
	}
}

// save replaces the job if its ETag is unchanged, and sets its owner.
func (t *task) save(ctx context.Context, owner string) error {
	j := t.job
	j.Owner, j.RequestCharge = owner, t.charge()
	j.Renewals++
	item, err := itemjson.EncodeOver(j, j.raw)
	if err != nil {
		return fmt.Errorf("save job: %w", err)
	}
	began := time.Now()
	if j.etag, err = t.r.leases.Replace(ctx, j.key(), item, j.etag); err != nil {
		return writeError("save job", err)
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

// writeError returns the error of a conditional write: errLost if the condition failed.
func writeError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case gone(err) || cosmos.HasStatus(err, http.StatusPreconditionFailed):
		return errLost
	}
	return fmt.Errorf("%s: %w", op, err)
}
