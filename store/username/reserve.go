package username

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// Names reads and writes reservations. It is safe for concurrent use.
type Names struct {
	Users  *cosmos.Container
	Clock  func() time.Time
	Logger *slog.Logger
}

func (n *Names) now() blog.Date { return blog.NewDate(n.Clock()) }

// Read reads the reservation of a name. It returns nil if the name is free.
func (n *Names) Read(ctx context.Context, op, name string) (*Reservation, cosmos.ETag, error) {
	k := Key(name)
	r, err := n.Users.Read(ctx, stored.Key(k, k))
	if r.Value == nil || err != nil {
		return nil, "", stored.Error(op, err)
	}
	item, ok, err := blog.Decode[Reservation](op, blog.TypeUsername, r.Value)
	if !ok {
		return nil, "", err
	}
	return &item, r.ETag, nil
}

// Reserve makes the user the owner of the name's reservation. Conflict if another user
// owns it.
func (n *Names) Reserve(ctx context.Context, op, ownerID, name string) error {
	k := Key(name)
	date := n.now()
	mine := New(ownerID, name, date)
	for range 3 {
		failed := n.Users.Create(ctx, k, blog.Encode(mine))
		if !cosmos.HasStatus(failed, http.StatusConflict) && !stored.Ambiguous(ctx, failed) {
			return stored.Error(op, failed)
		}
		have, etag, err := n.Read(ctx, op, name)
		if err != nil {
			return err
		}
		if stored.Ambiguous(ctx, failed) {
			if have != nil && have.OwnerID == ownerID && have.CreatedAt == date {
				return nil
			}
			return stored.Error(op, failed)
		}
		if have == nil {
			continue // deleted meanwhile
		}
		if have.OwnerID != ownerID {
			held, err := n.held(ctx, have)
			if err != nil {
				return err
			}
			if held {
				break
			}
		}
		// keep the mark, so that the name is released after a crash
		mine.Leaving = have.Leaving && have.OwnerID == ownerID
		etag, err = n.Replace(ctx, have, etag, mine)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			continue
		}
		if err != nil || have.OwnerID == ownerID {
			return stored.Error(op, err)
		}
		return n.giveBack(ctx, op, mine, have.OwnerID, etag)
	}
	return ErrTaken(op)
}

// Replace changes a reservation, as read, into another of the same name, by a patch: properties of later versions stay.
func (n *Names) Replace(
	ctx context.Context, have *Reservation, etag cosmos.ETag, by *Reservation,
) (cosmos.ETag, error) {
	p := cosmos.Patch{IfMatch: etag}
	p.Set("/ownerId", by.OwnerID)
	p.Set("/creationDate", by.CreatedAt)
	if have.Leaving != by.Leaving {
		p.Set("/leaving", by.Leaving)
	}
	switch {
	case by.TTL != 0:
		p.Set("/ttl", by.TTL)
	case have.TTL != 0:
		p.Remove("/ttl")
	}
	item, err := n.Users.Patch(ctx, stored.Key(have.ID, have.ID), p)
	return item.ETag, err
}

// giveBack returns an abandoned reservation that was just taken to its former owner if they have
// the name by now, and then returns Conflict.
func (n *Names) giveBack(ctx context.Context, op string, taken *Reservation, ownerID string, etag cosmos.ETag) error {
	raw, err := n.Users.ReadPrimary(ctx, stored.Key(ownerID, ownerID))
	if raw == nil || err != nil {
		return stored.Error(op, err)
	}
	owner, err := blog.DecodeUser(op, raw)
	if err != nil || owner == nil || Key(owner.Username) != taken.ID {
		return err
	}
	theirs := New(owner.UserID, owner.Username, n.now())
	if _, err := n.Replace(ctx, taken, etag, theirs); err != nil &&
		!cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return stored.Error(op, err)
	}
	return ErrTaken(op)
}

// Lost reports whether another user has taken the reservation of a name that a user just got. If the
// reservation was swept meanwhile, it reserves the name again.
func (n *Names) Lost(ctx context.Context, op, ownerID, name string) (bool, error) {
	have, err := n.newest(ctx, op, name)
	if err == nil && (have == nil || have.OwnerID != ownerID || have.TTL > 0) {
		err = n.Reserve(ctx, op, ownerID, name)
	}
	if blog.CodeOf(err) != blog.Conflict {
		return false, err
	}
	have, err = n.newest(ctx, op, name)
	return have != nil && have.OwnerID != ownerID, err
}

// newest is Read from the primary replica.
func (n *Names) newest(ctx context.Context, op, name string) (*Reservation, error) {
	k := Key(name)
	raw, err := n.Users.ReadPrimary(ctx, stored.Key(k, k))
	if raw == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	item, ok, err := blog.Decode[Reservation](op, blog.TypeUsername, raw)
	if !ok {
		return nil, err
	}
	return &item, nil
}

// held reports whether no other user may take the name: the owner has it, may be about to take it, or has
// released it and may still return to it.
func (n *Names) held(ctx context.Context, r *Reservation) (bool, error) {
	if now := n.Clock(); r.Young(now) || r.Kept(now) {
		return true, nil
	}
	const op = "check username"
	if !blog.ValidID(r.OwnerID) {
		return false, nil
	}
	raw, err := n.Users.ReadPrimary(ctx, stored.Key(r.OwnerID, r.OwnerID)) // another replica may not have the owner yet
	if raw == nil || err != nil {
		return false, stored.Error(op, err)
	}
	owner, err := blog.DecodeUserOrTombstone(op, raw) // a name is free once the deletion of its owner has ended
	return owner != nil && Key(owner.Username) == r.ID, err
}

// release releases the name of an owner with another name: it keeps the reservation for releasedFor, or
// deletes it if the owner never had the name. It returns false, and changes nothing, if the ETag is stale.
func (n *Names) release(ctx context.Context, r *Reservation, etag cosmos.ETag) (bool, error) {
	var err error
	if r.Leaving {
		_, err = n.Replace(ctx, r, etag, r.released(n.now()))
	} else {
		err = n.Users.Delete(ctx, stored.Key(r.ID, r.ID), etag)
	}
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, stored.Error("release username", err)
}
