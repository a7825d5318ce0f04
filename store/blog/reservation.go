package blog

import (
	"context"
	"net/http"
	"strings"
	"time"

	"byline/store/cosmos"
)

// Reservation reserves a username. It has a partition of its own, so that one point read finds
// it, and creating it twice fails.
type Reservation struct {
	Envelope
	ID        string `json:"id"`
	Partition string `json:"userId"`
	OwnerID   string `json:"ownerId"`
	CreatedAt Date   `json:"creationDate"`      // time of the last write, by the writer's clock
	Leaving   bool   `json:"leaving,omitempty"` // the owner is taking, or has taken, another name; stays true if they return
	Written   int64  `json:"_ts,omitempty"`     // seconds, by Cosmos DB's clock; 0 before it is written
}

// MarkLeaving returns the reservation marked as leaving: its owner is about to take another name.
func (r Reservation) MarkLeaving(date Date) *Reservation {
	r.Leaving, r.CreatedAt, r.Written = true, date, 0
	return &r
}

// released returns the reservation to write once its owner has another name.
func (r Reservation) released(date Date) *Reservation {
	marked := r.MarkLeaving(date)
	marked.TTL = int(releasedFor / time.Second)
	return marked
}

// NewReservation returns the reservation of a name.
func NewReservation(ownerID, name string, date Date) *Reservation {
	k := UsernameKey(name)
	return &Reservation{Envelope: Envelope{Type: TypeUsername}, ID: k, Partition: k, OwnerID: ownerID, CreatedAt: date}
}

// UsernameKey returns the id and partition key of the reservation of a name.
func UsernameKey(name string) string { return "username:" + strings.ToLower(name) }

// ReservationGrace is how long a reservation is valid although its owner does not have the
// name: longer than creating or renaming a user takes.
const ReservationGrace = time.Minute

// releasedFor is how long a released name is kept for its former owner.
const releasedFor = 30 * 24 * time.Hour

// ErrTaken returns the Conflict of a username that another user has.
func ErrTaken(op string) error {
	return &Error{Code: Conflict, Op: op, Field: "username", Message: "this username is taken"}
}

// Held reports whether no other user may take the name: the owner has it, may be about to take it, or has
// released it and may still return to it.
func (r *Reservation) Held(ctx context.Context, users *cosmos.Container, now time.Time) (bool, error) {
	if r.Young(now) || r.Kept(now) {
		return true, nil
	}
	const op = "check username"
	if !ValidID(r.OwnerID) {
		return false, nil
	}
	raw, err := users.ReadPrimary(ctx, Key(r.OwnerID, r.OwnerID)) // another replica may not have the owner yet
	if raw == nil || err != nil {
		return false, CosmosError(op, err)
	}
	owner, err := DecodeUserOrTombstone(op, raw) // a name is free once the deletion of its owner has ended
	return owner != nil && UsernameKey(owner.Username) == r.ID, err
}

// Kept reports whether a released name is kept for its former owner. The TTL alone does not suffice, as
// Cosmos DB ignores it in a container with TTL disabled.
func (r *Reservation) Kept(now time.Time) bool {
	return r.Leaving && r.age(now) < releasedFor
}

// Release releases the name of an owner with another name: it keeps the reservation for releasedFor, or
// deletes it if the owner never had the name. It returns false, and changes nothing, if the ETag is stale.
func (r *Reservation) Release(ctx context.Context, users *cosmos.Container, etag cosmos.ETag, now time.Time) (bool, error) {
	var err error
	if r.Leaving {
		_, err = users.Replace(ctx, Key(r.ID, r.ID), Encode(r.released(NewDate(now))), etag)
	} else {
		err = users.Delete(ctx, Key(r.ID, r.ID), etag)
	}
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, CosmosError("release username", err)
}

// Young reports whether the reservation is in its grace period.
func (r *Reservation) Young(now time.Time) bool { return r.age(now) < ReservationGrace }

// age returns how long ago the reservation was written, independently of the writer's clock.
func (r *Reservation) age(now time.Time) time.Duration { return now.Sub(time.Unix(r.Written, 0)) }
