package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"byline/store/cosmos"
)

// Job is an item of the leases container.
type Job struct {
	ID      string `json:"id"` // Kind + "." + Subject
	Kind    string `json:"kind"`
	Subject string `json:"subject"`

	// Generation is the version of the subject for which the job was enqueued. A newer one restarts the job.
	Generation int64 `json:"generation"`

	// Position is where the work continues: "" at the beginning, and again in a new generation.
	Position string `json:"position"`

	// Wait is how long after the last save the owner waits before the next unit.
	Wait time.Duration `json:"wait"`

	Items         int64     `json:"items"`         // items done so far, in all generations
	RequestCharge float64   `json:"requestCharge"` // RU so far
	Created       time.Time `json:"created"`

	// Owner is the instance that works on the job, or "". It renews its claim with every save.
	Owner    string `json:"owner"`
	Renewals int64  `json:"renewals"` // incremented by every save

	raw  []byte // as read
	etag cosmos.ETag
}

func (j *Job) key() cosmos.Key { return cosmos.Key{Partition: j.ID, ID: j.ID} }

// decode decodes a job.
func decode(item []byte) (Job, error) {
	var v struct {
		Job
		ETag cosmos.ETag `json:"_etag"`
	}
	err := json.Unmarshal(item, &v)
	if err == nil && v.ID != v.Kind+"."+v.Subject {
		err = fmt.Errorf("the id of a job of kind %q and subject %q is not %q", v.Kind, v.Subject, v.ID)
	}
	v.raw, v.etag = item, v.ETag
	return v.Job, err
}

// Step is the result of one unit of work.
type Step struct {
	Items    int
	Position string        // where the next unit begins
	Done     bool          // the job has ended
	Wait     time.Duration // wait before the next unit, unless the owner stops
}

// Work does one unit of a job, from its Position. A unit should take at most about a second, not counting waits
// of its requests. It must be idempotent, as it is repeated after a crash, and return when ctx ends. Work that
// waits must keep the end of the wait in its Position and return the remaining wait, as an owner may stop
// earlier.
type Work func(ctx context.Context, j Job) (Step, error)
