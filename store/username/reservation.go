package username

import (
	"strings"
	"time"

	"byline/store/blog"
)

// Reservation reserves a username. It has a partition of its own, so that one point read finds
// it, and creating it twice fails.
type Reservation struct {
	blog.Envelope
	ID        string    `json:"id"`
	Partition string    `json:"userId"`
	OwnerID   string    `json:"ownerId"`
	CreatedAt blog.Date `json:"creationDate"`      // time of the last write, by the writer's clock
	Leaving   bool      `json:"leaving,omitempty"` // the owner is taking, or has taken, another name; stays true if they return
	Written   int64     `json:"_ts,omitempty"`     // seconds, by Cosmos DB's clock; 0 before it is written
}

// MarkLeaving returns the reservation marked as leaving: its owner is about to take another name.
func (r Reservation) MarkLeaving(date blog.Date) *Reservation {
	r.Leaving, r.CreatedAt, r.Written = true, date, 0
	return &r
}

// released returns the reservation to write once its owner has another name.
func (r Reservation) released(date blog.Date) *Reservation {
	marked := r.MarkLeaving(date)
	marked.TTL = int(releasedFor / time.Second)
	return marked
}

// New returns the reservation of a name.
func New(ownerID, name string, date blog.Date) *Reservation {
	k := Key(name)
	return &Reservation{Envelope: blog.Envelope{Type: blog.TypeUsername}, ID: k, Partition: k, OwnerID: ownerID,
		CreatedAt: date}
}

// Key returns the id and partition key of the reservation of a name.
func Key(name string) string { return "username:" + strings.ToLower(name) }

// Grace is how long a reservation is valid although its owner does not have the
// name: longer than creating or renaming a user takes.
const Grace = time.Minute

// releasedFor is how long a released name is kept for its former owner.
const releasedFor = 30 * 24 * time.Hour

// ErrTaken returns the Conflict of a username that another user has.
func ErrTaken(op string) error {
	return &blog.Error{Code: blog.Conflict, Op: op, Field: "username", Reason: blog.ReasonTaken, Message: "is taken"}
}

// Kept reports whether a released name is kept for its former owner. The TTL alone does not suffice, as
// Cosmos DB ignores it in a container with TTL disabled.
func (r *Reservation) Kept(now time.Time) bool {
	return r.Leaving && r.age(now) < releasedFor
}

// Young reports whether the reservation is in its grace period.
func (r *Reservation) Young(now time.Time) bool { return r.age(now) < Grace }

// age returns how long ago the reservation was written, independently of the writer's clock.
func (r *Reservation) age(now time.Time) time.Duration { return now.Sub(time.Unix(r.Written, 0)) }
