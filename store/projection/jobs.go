package projection

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"byline/store/blog"
	"byline/store/cosmos"
)

// A job is work on one subject that may take longer than the handler of a page may. It is an item of
// the leases container, written before the checkpoint of the change that caused it and deleted when
// its work is done, so that a crash cannot lose it. Its work is idempotent and starts where it
// stopped, because it looks only for what is left: two workers on one job do no harm.
type job struct {
	ID      string      `json:"id"`
	Kind    jobKind     `json:"kind"`
	Subject string      `json:"subject"` // id of a user or post
	Owner   string      `json:"owner"`   // instance that works on it; "" if none
	Changes int64       `json:"changes"` // raised by each change that asks for the job again
	Writes  int64       `json:"writes"`  // raised by each claim
	ETag    cosmos.ETag `json:"_etag,omitempty"`

	claimed time.Time
	again   time.Time       // when a sweep that has found nothing more looks again; zero: not known yet
	count   int             // of items done here
	skipped map[string]bool // items that were refused here
}

type jobKind string

const (
	sweepJob   jobKind = "sweep"   // the name of a user on what they wrote
	cascadeJob jobKind = "cascade" // the comments and likes of a deleted post
)

const (
	jobSlice   = 500 * time.Millisecond // of work on one job at a time, and on all jobs in the handler of a page
	jobWorkers = 4                      // jobs that an instance works on at a time
	jobExpiry  = 5 * time.Second        // after which a claim that its owner has not renewed is void
	jobSettle  = 3 * time.Second        // longer than replicas lag
	jobRetry   = time.Second            // the first wait after a failure, and the least between listings
	jobWatch   = 3 * time.Second        // interval of listings while there are jobs
	jobPoll    = 30 * time.Second       // and while there are none; also the longest wait after a failure
)

// do works on subjects for up to a slice of time, and makes jobs of the rest: also of what fails, so
// that one subject does not stop the changes of others. Every sweep is a job: it looks again when
// replicas have caught up, since the query may miss an item that was just written with the old name,
// while the handler of that item may read the old name of its author.
func (v *Views) do(ctx context.Context, kind jobKind, subjects []string) error {
	end := time.Now().Add(jobSlice)
	slice, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for _, subject := range subjects {
		done, err := v.work(slice, &job{Kind: kind, Subject: subject}, end)
		if err != nil && slice.Err() == nil {
			v.o.Logger.Warn("job not finished, retrying", logKind, kind, logItem, subject, logError, err)
		}
		if done && kind != sweepJob {
			continue
		}
		if err := v.enqueue(ctx, kind, subject); err != nil {
			return err
		}
	}
	return nil
}

// work works on a job until it is done, or the time is over after a unit of work. A unit always
// ends: cut off, it would begin again in the next slice, and never end if it takes longer.
func (v *Views) work(ctx context.Context, j *job, end time.Time) (done bool, err error) {
	for n := 0; time.Now().Before(end); j.count += n {
		if j.Kind == cascadeJob {
			n, err = cascade(ctx, v.posts, j.Subject)
		} else {
			n, err = v.renameItems(ctx, j)
		}
		if err != nil || n == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// enqueue creates a job. If there is one, it must look again once it is done.
func (v *Views) enqueue(ctx context.Context, kind jobKind, subject string) error {
	const op = "enqueue job"
	j := job{ID: string(kind) + "." + subject, Kind: kind, Subject: subject}
	for range 10 {
		err := v.leases.Create(ctx, j.ID, blog.Encode(j))
		if cosmos.HasStatus(err, http.StatusConflict) {
			var again cosmos.Patch
			again.Increment("/changes", 1)
			_, err = v.leases.Patch(ctx, blog.Key(j.ID, j.ID), again)
			if cosmos.HasStatus(err, http.StatusNotFound) {
				continue // done meanwhile
			}
		}
		v.enqueued.Set()
		return blog.CosmosError(op, err)
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Err: errors.New("the job keeps ending")}
}

// runJobs works on the jobs until ctx ends, in turns.
func (v *Views) runJobs(ctx context.Context) error {
	var running sync.Map // by id
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := semaphore.NewWeighted(jobWorkers)
	claims := map[string]claim{}
	for ctx.Err() == nil {
		changed := v.enqueued.Next()
		wait := jobPoll
		jobs, err := v.jobs(ctx)
		if err != nil && ctx.Err() == nil {
			v.o.Logger.Warn("jobs not listed, retrying", logError, err)
		}
		if err != nil || len(jobs) > 0 {
			wait = jobWatch
		}
		now, before := time.Now(), claims
		claims = map[string]claim{}
		for _, j := range jobs {
			c := before[j.ID]
			if c.writes != j.Writes || c.since.IsZero() {
				c = claim{j.Writes, now}
			}
			claims[j.ID] = c
			if j.Owner != "" && j.Owner != v.o.Instance && now.Sub(c.since) < jobExpiry {
				continue
			}
			if _, runs := running.LoadOrStore(j.ID, true); !runs {
				wg.Go(func() {
					v.finish(ctx, &j, turns)
					running.Delete(j.ID)
					v.enqueued.Set() // a listing shows whether it was asked for again
				})
			}
		}
		pause(ctx, nil, jobRetry)
		pause(ctx, changed, wait-jobRetry)
	}
	return nil
}

// claim records since when a claim of a job is known.
type claim struct {
	writes int64
	since  time.Time
}

// finish works on a job, a slice in each turn, until it is done or another instance has it. A claim
// that expires between turns is free to others, who may have fewer jobs.
func (v *Views) finish(ctx context.Context, j *job, turns *semaphore.Weighted) {
	retry := jobRetry
	for turns.Acquire(ctx, 1) == nil {
		left, err := v.advance(ctx, j)
		turns.Release(1)
		if !left || ctx.Err() != nil {
			return
		}
		if err == nil {
			retry = jobRetry
			if d := time.Until(j.again); d > 0 {
				pause(ctx, nil, d)
			}
			continue
		}
		v.o.Logger.Warn("job not finished, retrying", logItem, j.ID, logError, err)
		pause(ctx, nil, retry)
		retry = min(2*retry, jobPoll)
	}
}

// advance works on a job for a slice, after it has claimed it. It reports whether work is left to
// this instance.
func (v *Views) advance(ctx context.Context, j *job) (left bool, err error) {
	if time.Since(j.claimed) > jobExpiry/3 {
		etag := j.ETag
		j.Owner, j.ETag = v.o.Instance, ""
		j.Writes++
		claimed, err := v.leases.Replace(ctx, blog.Key(j.ID, j.ID), blog.Encode(j), etag)
		if err != nil {
			j.ETag = etag
			gone := cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound)
			return !gone, blog.CosmosError("claim job", err)
		}
		j.ETag, j.claimed = claimed, time.Now()
	}
	done, err := v.work(ctx, j, time.Now().Add(jobSlice))
	if !done {
		return true, err
	}
	if j.Kind == sweepJob && j.again.IsZero() {
		j.again = time.Now().Add(jobSettle)
		return true, nil
	}
	err = v.leases.Delete(ctx, blog.Key(j.ID, j.ID), j.ETag)
	if err != nil && !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return true, blog.CosmosError("end job", err)
	}
	if j.Kind == sweepJob && j.count > 0 {
		v.o.Logger.Info("renamed everything a user has written", logUser, j.Subject, logCount, j.count)
	}
	return false, nil
}

// pause waits until d has passed, early is closed, or ctx ends.
func pause(ctx context.Context, early <-chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-early:
	case <-time.After(d):
	}
}

// jobs lists the jobs. It skips malformed ones.
func (v *Views) jobs(ctx context.Context) ([]job, error) {
	var all []job
	for page, err := range v.leases.Query(ctx, cosmos.Query{Text: "SELECT * FROM c WHERE c.kind IN ('sweep', 'cascade')", AllPartitions: true}) {
		if err != nil {
			return nil, blog.CosmosError("list jobs", err)
		}
		for _, raw := range page {
			var j job
			if err := json.Unmarshal(raw, &j); err != nil {
				v.skip(blog.LeasesContainer, raw, err)
				continue
			}
			all = append(all, j)
		}
	}
	v.metrics.jobs.Store(int64(len(all)))
	return all, nil
}
