package blog

import (
	"context"
	"net/http"
	"strings"
	"time"

	"byline/store/cosmos"
)

// usernameItem reserves a name. It has a partition of its own, so that one point
// read finds it, and creating it twice fails.
type Reservation struct {
	Envelope
	ID        string `json:"id"`
	Partition string `json:"userId"`
	OwnerID   string `json:"ownerId"`
	CreatedAt Date   `json:"creationDate"`      // or when it was last written
	Leaving   bool   `json:"leaving,omitempty"` // its owner is about to take another name, or has; stays if they come back
}

// releasing returns the reservation as it is once its owner carries another name.
func (r Reservation) releasing(date Date) *Reservation {
	r.Leaving, r.CreatedAt, r.TTL = true, date, int(ReleasedFor/time.Second)
	return &r
}

// reservationOf is the reservation of a name, to be written.
func NewReservation(ownerID, name string, date Date) *Reservation {
	k := UsernameKey(name)
	return &Reservation{Envelope: Envelope{Type: TypeUsername}, ID: k, Partition: k, OwnerID: ownerID, CreatedAt: date}
}

// usernameKey is the id and the partition of the reservation of a name.
func UsernameKey(name string) string { return "username:" + strings.ToLower(name) }

// reservationGrace is how long a reservation is honoured whose owner does not
// carry the name: longer than creating or renaming a user takes, which sagaTimeout
// sees to.
const ReservationGrace = time.Minute

// A released name is kept for the user who had it for releasedFor, unless they release
// maxFormer others after it: so nobody can hold many names.
const ReleasedFor = 30 * 24 * time.Hour

func ErrTaken(op string) error {
	return &Error{Code: Conflict, Op: op, Field: "username", Message: "this username is taken"}
}

// held reports whether a reservation is to be honoured: its owner carries the
// name, or may be about to, or has released it and may come back.
func (r *Reservation) Held(ctx context.Context, users *cosmos.Container, now time.Time) (bool, error) {
	if r.Young(now) || r.Kept(now) {
		return true, nil
	}
	owner, err := ReadUser(ctx, "check username", users, r.OwnerID)
	return owner != nil && UsernameKey(owner.Username) == r.ID, err
}

// keptBack reports whether a name that its owner does not carry any more is still kept
// for them. The TTL alone would not do: the service counts it by its own clock, and not
// at all where a container has TTL disabled.
func (r *Reservation) Kept(now time.Time) bool {
	return r.Leaving && r.CreatedAt > NewDate(now.Add(-ReleasedFor))
}

// release keeps a name that its owner has been seen without for releasedFor, or
// removes the reservation if the name was never carried. It does nothing if the
// reservation is not what was read any more, and reports whether it was.
func (r *Reservation) Release(ctx context.Context, users *cosmos.Container, etag cosmos.ETag, now time.Time) (bool, error) {
	var err error
	if r.Leaving {
		_, err = users.Replace(ctx, Key(r.ID, r.ID), Encode(r.releasing(NewDate(now))), etag)
	} else {
		err = users.Delete(ctx, Key(r.ID, r.ID), etag)
	}
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, CosmosError("release username", err)
}

// young reports whether the owner of a reservation may still be about to carry the name.
func (r *Reservation) Young(now time.Time) bool { return r.CreatedAt > GraceBegan(now) }

// GraceBegan is the date of the youngest reservations that are honoured only if their
// owners carry the names.
func GraceBegan(now time.Time) Date { return NewDate(now.Add(-ReservationGrace)) }
