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

	// Generation is the version of the subject for which the job was enqueued. A newer one begins again.
	Generation int64 `json:"generation"`

	// Position is where the work continues: "" at the beginning, and again in a new generation.
	Position string `json:"position"`

	// Wait is for how long after the last save its owner waits before the next unit.
	Wait time.Duration `json:"wait"`

	Items         int64     `json:"items"`         // done so far, of all generations
	RequestCharge float64   `json:"requestCharge"` // RU, so far
	Created       time.Time `json:"created"`

	// Owner is the instance that works on the job; "" if none does. It renews its claim by every save.
	Owner    string `json:"owner"`
	Renewals int64  `json:"renewals"` // raised by every save

	etag cosmos.ETag
}

func (j *Job) key() cosmos.Key { return cosmos.Key{Partition: j.ID, ID: j.ID} }

// decode decodes an item.
func decode(item []byte) (Job, error) {
	var v struct {
		Job
		ETag cosmos.ETag `json:"_etag"`
	}
	err := json.Unmarshal(item, &v)
	if err == nil && v.ID != v.Kind+"."+v.Subject {
		err = fmt.Errorf("the id of a job of kind %q and subject %q is not %q", v.Kind, v.Subject, v.ID)
	}
	v.etag = v.ETag
	return v.Job, err
}

// Step is what one unit of work has done.
type Step struct {
	Items    int
	Position string        // where the next unit begins
	Done     bool          // nothing is left: the job ends
	Wait     time.Duration // the next unit begins no earlier, unless its owner ends
}

// Work does one unit of a job, from its Position. A unit takes at most about a second, if its requests
// need not wait. It must be idempotent, as it is repeated after a crash, and return when ctx ends. One that
// waits keeps until when in its Position, and returns what is left: an owner may end before.
type Work func(ctx context.Context, j Job) (Step, error)
