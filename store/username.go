package store

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
)

// A username is unique because an item of its own reserves it (blog.Reservation), and a user
// has a name only while owning its reservation. User and reservation are in different
// partitions, so creating and renaming take several steps: reserve the new name, mark the old
// reservation as leaving, change the user, release the old name.
//
// The reservation of a released name stays for 30 days, by a TTL: until then only its former owner can take
// the name again, and lookups by it find that user. A reservation gets a TTL only after its owner was seen
// with another name.
//
// A crash between the steps leaves a reservation whose owner does not have the name. The owner may resume
// at any time. After blog.ReservationGrace the projections' sweep releases it if it is marked as leaving,
// and deletes it otherwise; then another user may take the name. The sweep finds every reservation in the
// change feed, since marking one is a change.
//
// ETags separate concurrent writers: reserving a name again changes the ETag, and a name is
// released or deleted only at the ETag that the reservation had before its owner was seen with
// another name.
//
// The age of a reservation counts from its _ts. A process that pauses for longer than the grace period may
// still change its user after another user has taken the name. So each side writes first and then reads
// what the other writes: after changing a user, a process reads the reservation, and reverts to the old
// name if it is lost; after taking an abandoned reservation, it reads the former owner, and returns the
// reservation if they have the name. Both read from the primary replica, since others may be behind. So
// the two never both keep the name.

// sagaTimeout bounds the steps of creating or renaming a user.
const sagaTimeout = blog.ReservationGrace / 2

// maxRenames is how many renames a user has in a period of Options.RenameCooldown. A rename makes the
// projections rewrite everything the user wrote, even if only the case changes: 238,000 RU for 20,000
// comments, so three a day are 8 RU/s.
const maxRenames = 3

// maxFormer is the most released names kept for a user, so that no user can hold many.
const maxFormer = 5

// UserByUsername finds a user by name, ignoring case, or by a released name that is still kept
// for them: two point reads. It returns nil if the user does not exist.
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
		return nil, err // reserved for a create or rename that has not ended
	}
	return u, nil
}

// reservation reads the reservation of a name. It returns nil if the name is free.
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

// reserveUsername makes the user the owner of the name's reservation. Conflict if another user
// owns it.
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
			continue // deleted meanwhile
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
		mine.Leaving = have.Leaving && have.OwnerID == ownerID // keep the mark, so that the name is released after a crash
		etag, err = s.users.Replace(ctx, blog.Key(k, k), blog.Encode(mine), etag)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			continue
		}
		if err != nil || have.OwnerID == ownerID {
			return blog.CosmosError(op, err)
		}
		return s.returnReservation(ctx, op, have, etag)
	}
	return blog.ErrTaken(op)
}

// returnReservation returns an abandoned reservation that was just taken to its former owner if they have
// the name by now, and then returns Conflict.
func (s *Store) returnReservation(ctx context.Context, op string, r *blog.Reservation, etag cosmos.ETag) error {
	raw, err := s.users.ReadPrimary(ctx, blog.Key(r.OwnerID, r.OwnerID))
	if raw == nil || err != nil {
		return blog.CosmosError(op, err)
	}
	owner, err := blog.DecodeUser(op, raw)
	if err != nil || owner == nil || blog.UsernameKey(owner.Username) != r.ID {
		return err
	}
	theirs := blog.NewReservation(owner.ID, owner.Username, s.now())
	if _, err := s.users.Replace(ctx, blog.Key(r.ID, r.ID), blog.Encode(theirs), etag); err != nil && !cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return blog.CosmosError(op, err)
	}
	return blog.ErrTaken(op)
}

// lost reports whether another user has taken the reservation of a name that a user just got. If the
// reservation was swept meanwhile, it reserves the name again.
func (s *Store) lost(ctx context.Context, op, ownerID, name string) (bool, error) {
	have, err := s.newestReservation(ctx, op, name)
	if err == nil && (have == nil || have.OwnerID != ownerID || have.TTL > 0) {
		err = s.reserveUsername(ctx, op, ownerID, name)
	}
	if blog.CodeOf(err) != blog.Conflict {
		return false, err
	}
	have, err = s.newestReservation(ctx, op, name)
	return have != nil && have.OwnerID != ownerID, err
}

// newestReservation is reservation from the primary replica.
func (s *Store) newestReservation(ctx context.Context, op, name string) (*blog.Reservation, error) {
	k := blog.UsernameKey(name)
	raw, err := s.users.ReadPrimary(ctx, blog.Key(k, k))
	if raw == nil || err != nil {
		return nil, blog.CosmosError(op, err)
	}
	item, ok, err := blog.Decode[blog.Reservation](op, blog.TypeUsername, raw)
	if !ok {
		return nil, err
	}
	return &item, nil
}

// RenameUser gives a user another name: it reserves the name, changes the user, and releases
// the old name. The projections rename everything the user wrote. NotFound if the user does
// not exist, Conflict (Field is "username") if the name is taken, Throttled after maxRenames
// renames. A repetition changes nothing, and is never throttled.
func (s *Store) RenameUser(ctx context.Context, userID, username string) (*blog.User, error) {
	const op = "rename user"
	ctx = s.account.Begin(ctx, C1)
	if err := checkUsername(op, username); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sagaTimeout)
	defer cancel()
	session := cosmos.SessionFrom(ctx)
	session.MarkWritten() // also if a repetition has nothing to write
	for range 3 {
		u, err := blog.ReadUserItem(ctx, op, s.users, userID)
		if err != nil {
			return nil, err
		}
		if u == nil || s.deletions.Hides(u.ID, u.CreatedAt) {
			return nil, noUser(op)
		}
		if u.Username == username {
			s.noteRename(session, userID)
			return &u.User, nil
		}
		if err := s.reserved.check(op, username); err != nil {
			return nil, err
		}
		if wait := s.renameWait(u); wait > 0 {
			return nil, &blog.Error{Code: blog.Throttled, Op: op, RetryAfter: wait,
				Message: "you have changed your name three times; try again later"}
		}
		renamed, err := s.rename(ctx, op, session, u, username)
		if renamed != nil || err != nil {
			return renamed, err
		}
	}
	return nil, &blog.Error{Code: blog.Conflict, Op: op, Message: "another request is renaming the user; try again"}
}

// renameWait returns how long until the user can be renamed.
func (s *Store) renameWait(u *blog.UserItem) time.Duration {
	if len(u.Renames) < maxRenames {
		return 0
	}
	oldest := u.Renames[len(u.Renames)-maxRenames].Time()
	return oldest.Add(s.o.RenameCooldown).Sub(s.o.Clock())
}

// rename does the steps of a rename. It returns nil if the user was changed meanwhile.
func (s *Store) rename(ctx context.Context, op string, session *cosmos.Session, u *blog.UserItem, username string) (*blog.User, error) {
	var old *blog.Reservation
	var etag cosmos.ETag
	sameName := blog.UsernameKey(u.Username) == blog.UsernameKey(username)
	if !sameName {
		if err := s.reserveUsername(ctx, op, u.ID, username); err != nil {
			return nil, err
		}
		var err error
		if old, etag, err = s.reservation(ctx, op, u.Username); err != nil {
			return nil, err
		}
		if old != nil && old.OwnerID == u.ID {
			old = old.MarkLeaving(s.now())
			marked, err := s.users.Replace(ctx, blog.Key(old.ID, old.ID), blog.Encode(old), etag)
			if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) || ambiguous(ctx, err) {
				return nil, nil // try again
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
	p.Set("/renames", append(u.Renames[max(0, len(u.Renames)-maxRenames+1):], s.now()))
	p.Increment("/revision", 1)
	r, err := s.users.Patch(ctx, blog.Key(u.ID, u.ID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
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
	if renamed == nil {
		if renamed, err = blog.DecodeUser(op, r.Value); renamed == nil {
			return nil, err
		}
	}
	if !sameName {
		if lost, err := s.lost(ctx, op, u.ID, username); err != nil {
			return nil, err
		} else if lost {
			return nil, s.revert(ctx, op, u, renamed)
		}
	}
	if old != nil && old.OwnerID == u.ID {
		if _, err := old.Release(ctx, s.users, etag, s.o.Clock()); err != nil {
			// The user has the new name; the sweep releases the old one.
			s.o.Logger.Warn("old username not released", logUser, u.ID, logError, err)
		}
	}
	for _, name := range freed {
		if err := s.free(ctx, op, u.ID, name); err != nil { // the reservation expires anyway
			s.o.Logger.Warn("former username not freed", logUser, u.ID, logError, err)
		}
	}
	return renamed, nil
}

// revert restores the previous name of a user who lost the new one, and returns Conflict. The attempt does
// not count as a rename.
func (s *Store) revert(ctx context.Context, op string, before *blog.UserItem, renamed *blog.User) error {
	var p cosmos.Patch
	p.Condition = fmt.Sprintf("from c where c.revision = %d", renamed.Revision)
	p.Set("/username", before.Username)
	p.Set("/formerUsernames", append([]string{}, before.FormerUsernames...))
	p.Set("/renames", append([]blog.Date{}, before.Renames...))
	p.Increment("/revision", 1)
	_, err := s.users.Patch(ctx, blog.Key(before.ID, before.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusPreconditionFailed) { // renamed again
		return blog.CosmosError(op, err)
	}
	return blog.ErrTaken(op)
}

// formerUsernames returns the former names to keep for a user who is renamed, and those to free.
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

// free deletes the reservation of a name that is kept for a user.
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
