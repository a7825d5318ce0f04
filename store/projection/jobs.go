package projection

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"

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
	Writes  int64       `json:"writes"`  // raised by each claim, which changes the ETag
	ETag    cosmos.ETag `json:"_etag,omitempty"`
}

type jobKind string

const (
	sweepJob   jobKind = "sweep"   // the name of a user on what they wrote
	cascadeJob jobKind = "cascade" // the comments and likes of a deleted post
)

const (
	jobSlice  = 500 * time.Millisecond // of work on one job at a time, and on all jobs in the handler of a page
	jobExpiry = 10 * time.Second       // after which an unchanged claim is void
	jobPoll   = 30 * time.Second       // interval of looking for jobs of other instances
)

// do works on subjects for up to a slice of time, and makes jobs of the rest.
func (v *Views) do(ctx context.Context, kind jobKind, subjects []string) error {
	end := time.Now().Add(jobSlice)
	for _, subject := range subjects {
		done, err := v.work(ctx, job{Kind: kind, Subject: subject}, time.Until(end))
		if err == nil && !done {
			err = v.enqueue(ctx, kind, subject)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// work works on a job for some time. It reports whether the work is done.
func (v *Views) work(ctx context.Context, j job, limit time.Duration) (done bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	slice, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if j.Kind == cascadeJob {
		err = cascade(slice, v.posts, j.Subject, math.MaxInt)
	} else {
		err = v.renameItems(slice, j.Subject)
	}
	if err != nil && ctx.Err() == nil && slice.Err() != nil {
		return false, nil
	}
	return err == nil, err
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

// runJobs works on all jobs in turn, a slice on each, until ctx ends.
func (v *Views) runJobs(ctx context.Context) error {
	seen := map[string]sighting{}
	for ctx.Err() == nil {
		enqueued := v.enqueued.Next()
		wait := jobPoll
		jobs, err := v.jobs(ctx)
		for _, j := range jobs {
			if ctx.Err() != nil {
				return nil
			}
			var left bool
			left, err = v.advance(ctx, j, seen)
			if left {
				wait = 0
			}
			if err != nil && ctx.Err() == nil {
				v.o.Logger.Warn("job not finished, retrying", logItem, j.ID, logError, err)
			}
		}
		if len(jobs) > 0 || err != nil {
			wait = min(wait, time.Second)
		}
		if err != nil {
			wait = time.Second
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-enqueued:
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// sighting records since when a job is known with an ETag.
type sighting struct {
	etag  cosmos.ETag
	since time.Time
}

// advance claims a job and works on it for a slice. It reports whether more is to be done here.
func (v *Views) advance(ctx context.Context, j job, seen map[string]sighting) (left bool, err error) {
	if s := seen[j.ID]; s.etag != j.ETag {
		seen[j.ID] = sighting{j.ETag, time.Now()}
	}
	age := time.Since(seen[j.ID].since)
	if j.Owner != "" && j.Owner != v.o.Instance && age < jobExpiry {
		return false, nil
	}
	etag := j.ETag
	if j.Owner != v.o.Instance || age > jobExpiry/3 { // claim it, or renew the claim
		j.Owner, j.ETag = v.o.Instance, ""
		j.Writes++
		etag, err = v.leases.Replace(ctx, blog.Key(j.ID, j.ID), blog.Encode(j), etag)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			return true, nil
		}
		if err != nil {
			return false, blog.CosmosError("claim job", err)
		}
		seen[j.ID] = sighting{etag, time.Now()}
	}
	done, err := v.work(ctx, j, jobSlice)
	if !done || err != nil {
		return true, err
	}
	err = v.leases.Delete(ctx, blog.Key(j.ID, j.ID), etag)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return true, nil // asked for again
	}
	if err == nil || cosmos.HasStatus(err, http.StatusNotFound) {
		delete(seen, j.ID)
		return false, nil
	}
	return true, blog.CosmosError("end job", err)
}

// jobs lists the jobs.
func (v *Views) jobs(ctx context.Context) ([]job, error) {
	var all []job
	for page, err := range v.leases.Query(ctx, cosmos.Query{Text: "SELECT * FROM c WHERE c.kind IN ('sweep', 'cascade')", AllPartitions: true}) {
		if err != nil {
			return nil, blog.CosmosError("list jobs", err)
		}
		for _, raw := range page {
			var j job
			if err := json.Unmarshal(raw, &j); err != nil {
				return nil, &blog.Error{Code: blog.Internal, Op: "list jobs", Err: err}
			}
			all = append(all, j)
		}
	}
	v.metrics.jobs.Store(int64(len(all)))
	return all, nil
}
