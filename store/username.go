package store

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
)

// A username is unique because it is reserved by an item of its own, and a user
// carries a name only while holding its reservation. User and reservation are in
// different partitions, so that creating and renaming take several steps: reserve
// the new name, mark the old one as leaving, change the user, release the old name.
//
// A released name keeps its reservation for releasedFor, by a TTL: until then only
// its former owner can take it again, and is found by it. A reservation has a TTL
// only after its owner was seen without the name.
//
// A crash in between leaves a reservation whose owner does not carry the name. The
// owner may resume at any time. Once it is older than reservationGrace, the sweep
// releases it if it is leaving; if it was never carried, the sweep removes it, and
// anybody else may take it over. The sweep follows the changes of the reservations;
// the mark is one, so that whatever is left was written a moment before.
//
// Concurrent writers are kept apart by the reservation's ETag: reserving a name
// again changes it, and a name is released or removed only at the ETag that the
// reservation had before its owner was seen without the name.

const sagaTimeout = blog.ReservationGrace / 2

const maxFormer = 5

// UserByUsername finds a user by name, without regard to case, or by a name that the
// user has released and nobody may take yet: two point reads. It returns nil if there
// is none.
func (s *Store) UserByUsername(ctx context.Context, username string) (*blog.User, error) {
	const op = "read user by username"
	ctx = s.account.Begin(ctx, ByUsername)
	if checkUsername(op, username) != nil {
		return nil, nil
	}
	k := blog.UsernameKey(username)
	reservation, err := cached(ctx, s.users, k, "username", func(ctx context.Context) (*blog.Reservation, error) {
		item, _, err := s.reservation(ctx, op, username)
		return item, err
	})
	if reservation == nil || err != nil {
		return nil, err
	}
	u, err := s.User(ctx, reservation.OwnerID)
	if u == nil || err != nil || blog.UsernameKey(u.Username) != reservation.ID && !reservation.Kept(s.o.Clock()) {
		return nil, err // reserved, but never carried, or not yet
	}
	return u, nil
}

// reservation reads the reservation of a name; nil if there is none.
func (s *Store) reservation(ctx context.Context, op, name string) (*blog.Reservation, cosmos.ETag, error) {
	k := blog.UsernameKey(name)
	r, err := s.users.Read(ctx, blog.Key(k, k))
	if r.Value == nil || err != nil {
		return nil, "", blog.CosmosError(op, err)
	}
	item, ok, err := blog.Decode[blog.Reservation](op, blog.TypeUsername, r.Value)
	if !ok {
		return nil, "", err
	}
	return &item, r.ETag, nil
}

// reserveUsername makes the user the holder of the name's reservation. Conflict
// if somebody else is.
func (s *Store) reserveUsername(ctx context.Context, op, ownerID, name string) error {
	k := blog.UsernameKey(name)
	date := s.now()
	mine := blog.NewReservation(ownerID, name, date)
	for range 3 {
		failed := s.users.Create(ctx, k, blog.Encode(mine))
		if !cosmos.HasStatus(failed, http.StatusConflict) && !ambiguous(ctx, failed) {
			return blog.CosmosError(op, failed)
		}
		have, etag, err := s.reservation(ctx, op, name)
		if err != nil {
			return err
		}
		if ambiguous(ctx, failed) {
			if have != nil && have.OwnerID == ownerID && have.CreatedAt == date {
				return nil
			}
			return blog.CosmosError(op, failed)
		}
		if have == nil {
			continue // removed a moment ago
		}
		if have.OwnerID != ownerID {
			held, err := have.Held(ctx, s.users, s.o.Clock())
			if err != nil {
				return err
			}
			if held {
				break
			}
		}
		mine.Leaving = have.Leaving && have.OwnerID == ownerID // should this be interrupted, it is released again
		_, err = s.users.Replace(ctx, blog.Key(k, k), blog.Encode(mine), etag)
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			return blog.CosmosError(op, err)
		}
	}
	return blog.ErrTaken(op)
}

// RenameUser gives a user another name: it reserves the name, changes the user,
// and releases the old name. The copies follow through the change feed. NotFound
// if the user does not exist, Conflict (Field is "username") if the name is taken.
func (s *Store) RenameUser(ctx context.Context, userID, username string) (*blog.User, error) {
	const op = "rename user"
	ctx = s.account.Begin(ctx, C1)
	if err := checkUsername(op, username); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sagaTimeout)
	defer cancel()
	session := cosmos.SessionFrom(ctx)
	session.NoteWrite() // a repetition may find that nothing is left to write
	for range 3 {
		u, err := blog.ReadUserItem(ctx, op, s.users, userID)
		if err != nil {
			return nil, err
		}
		if u == nil {
			return nil, &blog.Error{Code: blog.NotFound, Op: op, Message: "user not found"}
		}
		if u.Username == username {
			s.noteRename(session, userID)
			return &u.User, nil
		}
		renamed, err := s.rename(ctx, op, session, u, username)
		if renamed != nil || err != nil {
			return renamed, err
		}
	}
	return nil, &blog.Error{Code: blog.Conflict, Op: op, Message: "another request is renaming the user; try again"}
}

// rename takes the steps from one name to another. It returns nil if the user was
// changed meanwhile.
func (s *Store) rename(ctx context.Context, op string, session *cosmos.Session, u *blog.UserItem, username string) (*blog.User, error) {
	var old *blog.Reservation
	var etag cosmos.ETag
	if blog.UsernameKey(u.Username) != blog.UsernameKey(username) {
		if err := s.reserveUsername(ctx, op, u.ID, username); err != nil {
			return nil, err
		}
		var err error
		if old, etag, err = s.reservation(ctx, op, u.Username); err != nil {
			return nil, err
		}
		if old != nil && old.OwnerID == u.ID {
			old.Leaving, old.CreatedAt = true, s.now()
			marked, err := s.users.Replace(ctx, blog.Key(old.ID, old.ID), blog.Encode(old), etag)
			if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) || ambiguous(ctx, err) {
				return nil, nil // look again
			}
			if err != nil {
				return nil, blog.CosmosError(op, err)
			}
			etag = marked
		}
	}
	s.noteRename(session, u.ID)
	former, freed := formerUsernames(u, username)
	var p cosmos.Patch
	p.Condition, p.ReturnItem = fmt.Sprintf("from c where c.revision = %d", u.Revision), true
	p.Set("/username", username)
	if !slices.Equal(former, u.FormerUsernames) {
		p.Set("/formerUsernames", former)
	}
	p.Increment("/revision", 1)
	r, err := s.users.Patch(ctx, blog.Key(u.ID, u.ID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return nil, nil
	}
	var renamed *blog.User
	if ambiguous(ctx, err) {
		if have, readErr := blog.ReadUser(ctx, op, s.users, u.ID); readErr == nil && have != nil && have.Username == username && have.Revision == u.Revision+1 {
			renamed, err = have, nil
		}
	}
	if err != nil {
		return nil, blog.CosmosError(op, err)
	}
	if old != nil && old.OwnerID == u.ID {
		if _, err := old.Release(ctx, s.users, etag, s.o.Clock()); err != nil {
			// The user has the new name all the same; the sweep releases the old one.
			s.o.Logger.Warn("old username not released", logUser, u.ID, logError, err)
		}
	}
	for _, name := range freed {
		if err := s.free(ctx, op, u.ID, name); err != nil { // it expires all the same
			s.o.Logger.Warn("former username not freed", logUser, u.ID, logError, err)
		}
	}
	if renamed != nil {
		return renamed, nil
	}
	return blog.DecodeUser(op, r.Value)
}

// formerUsernames returns the names to keep for a user who takes another name, and those
// that are too many.
func formerUsernames(u *blog.UserItem, username string) (kept, freed []string) {
	taken := blog.UsernameKey(username)
	if blog.UsernameKey(u.Username) == taken {
		return u.FormerUsernames, nil
	}
	for _, name := range append(slices.Clone(u.FormerUsernames), u.Username) {
		if k := blog.UsernameKey(name); k != taken && (k != blog.UsernameKey(u.Username) || name == u.Username) {
			kept = append(kept, name)
		}
	}
	extra := max(0, len(kept)-maxFormer)
	return kept[extra:], kept[:extra]
}

// free removes the reservation of a name that is kept for a user.
func (s *Store) free(ctx context.Context, op, userID, name string) error {
	r, etag, err := s.reservation(ctx, op, name)
	if r == nil || err != nil || r.OwnerID != userID || r.TTL == 0 {
		return err
	}
	err = s.users.Delete(ctx, blog.Key(r.ID, r.ID), etag)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil
	}
	return blog.CosmosError(op, err)
}
