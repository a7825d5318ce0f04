package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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

// usernameItem reserves a name. It has a partition of its own, so that one point
// read finds it, and creating it twice fails.
type usernameItem struct {
	envelope
	ID        string `json:"id"`
	Partition string `json:"userId"`
	OwnerID   string `json:"ownerId"`
	CreatedAt Date   `json:"creationDate"`      // or when it was last written
	Leaving   bool   `json:"leaving,omitempty"` // its owner is about to take another name, or has; stays if they come back
}

// releasing returns the reservation as it is once its owner carries another name.
func (r usernameItem) releasing(date Date) *usernameItem {
	r.Leaving, r.CreatedAt, r.TTL = true, date, int(releasedFor/time.Second)
	return &r
}

// reservationOf is the reservation of a name, to be written.
func reservationOf(ownerID, name string, date Date) *usernameItem {
	k := usernameKey(name)
	return &usernameItem{envelope: envelope{Type: typeUsername}, ID: k, Partition: k, OwnerID: ownerID, CreatedAt: date}
}

// usernameKey is the id and the partition of the reservation of a name.
func usernameKey(name string) string { return "username:" + strings.ToLower(name) }

// reservationGrace is how long a reservation is honoured whose owner does not
// carry the name: longer than creating or renaming a user takes, which sagaTimeout
// sees to.
const reservationGrace = time.Minute

const sagaTimeout = reservationGrace / 2

// A released name is kept for the user who had it for releasedFor, unless they release
// maxFormer others after it: so nobody can hold many names.
const releasedFor = 30 * 24 * time.Hour

const maxFormer = 5

// UserByUsername finds a user by name, without regard to case, or by a name that the
// user has released and nobody may take yet: two point reads. It returns nil if there
// is none.
func (s *Store) UserByUsername(ctx context.Context, username string) (*User, error) {
	const op = "read user by username"
	ctx = s.account.Begin(ctx, ByUsername)
	if checkUsername(op, username) != nil {
		return nil, nil
	}
	k := usernameKey(username)
	reservation, err := cached(ctx, s.users, k, "username", func(ctx context.Context) (*usernameItem, error) {
		item, _, err := s.reservation(ctx, op, username)
		return item, err
	})
	if reservation == nil || err != nil {
		return nil, err
	}
	u, err := s.User(ctx, reservation.OwnerID)
	if u == nil || err != nil || usernameKey(u.Username) != reservation.ID && !reservation.keptBack(s.o.Clock()) {
		return nil, err // reserved, but never carried, or not yet
	}
	return u, nil
}

// reservation reads the reservation of a name; nil if there is none.
func (s *Store) reservation(ctx context.Context, op, name string) (*usernameItem, cosmos.ETag, error) {
	k := usernameKey(name)
	r, err := s.users.Read(ctx, key(k, k))
	if r.Value == nil || err != nil {
		return nil, "", cosmosError(op, err)
	}
	item, ok, err := decode[usernameItem](op, typeUsername, r.Value)
	if !ok {
		return nil, "", err
	}
	return &item, r.ETag, nil
}

// reserveUsername makes the user the holder of the name's reservation. Conflict
// if somebody else is.
func (s *Store) reserveUsername(ctx context.Context, op, ownerID, name string) error {
	k := usernameKey(name)
	date := s.now()
	mine := reservationOf(ownerID, name, date)
	for range 3 {
		failed := s.users.Create(ctx, k, encode(mine))
		if !cosmos.HasStatus(failed, http.StatusConflict) && !ambiguous(ctx, failed) {
			return cosmosError(op, failed)
		}
		have, etag, err := s.reservation(ctx, op, name)
		if err != nil {
			return err
		}
		if ambiguous(ctx, failed) {
			if have != nil && have.OwnerID == ownerID && have.CreatedAt == date {
				return nil
			}
			return cosmosError(op, failed)
		}
		if have == nil {
			continue // removed a moment ago
		}
		if have.OwnerID != ownerID {
			held, err := have.held(ctx, s.users, s.o.Clock())
			if err != nil {
				return err
			}
			if held {
				break
			}
		}
		mine.Leaving = have.Leaving && have.OwnerID == ownerID // should this be interrupted, it is released again
		_, err = s.users.Replace(ctx, key(k, k), encode(mine), etag)
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			return cosmosError(op, err)
		}
	}
	return errTaken(op)
}

func errTaken(op string) error {
	return &Error{Code: Conflict, Op: op, Field: "username", Message: "this username is taken"}
}

// held reports whether a reservation is to be honoured: its owner carries the
// name, or may be about to, or has released it and may come back.
func (r *usernameItem) held(ctx context.Context, users *cosmos.Container, now time.Time) (bool, error) {
	if r.young(now) || r.keptBack(now) {
		return true, nil
	}
	owner, err := readUser(ctx, "check username", users, r.OwnerID)
	return owner != nil && usernameKey(owner.Username) == r.ID, err
}

// keptBack reports whether a name that its owner does not carry any more is still kept
// for them. The TTL alone would not do: the service counts it by its own clock, and not
// at all where a container has TTL disabled.
func (r *usernameItem) keptBack(now time.Time) bool {
	return r.Leaving && r.CreatedAt > NewDate(now.Add(-releasedFor))
}

// RenameUser gives a user another name: it reserves the name, changes the user,
// and releases the old name. The copies follow through the change feed. NotFound
// if the user does not exist, Conflict (Field is "username") if the name is taken.
func (s *Store) RenameUser(ctx context.Context, userID, username string) (*User, error) {
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
		u, err := readUserItem(ctx, op, s.users, userID)
		if err != nil {
			return nil, err
		}
		if u == nil {
			return nil, &Error{Code: NotFound, Op: op, Message: "user not found"}
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
	return nil, &Error{Code: Conflict, Op: op, Message: "another request is renaming the user; try again"}
}

// rename takes the steps from one name to another. It returns nil if the user was
// changed meanwhile.
func (s *Store) rename(ctx context.Context, op string, session *cosmos.Session, u *userItem, username string) (*User, error) {
	var old *usernameItem
	var etag cosmos.ETag
	if usernameKey(u.Username) != usernameKey(username) {
		if err := s.reserveUsername(ctx, op, u.ID, username); err != nil {
			return nil, err
		}
		var err error
		if old, etag, err = s.reservation(ctx, op, u.Username); err != nil {
			return nil, err
		}
		if old != nil && old.OwnerID == u.ID {
			old.Leaving, old.CreatedAt = true, s.now()
			marked, err := s.users.Replace(ctx, key(old.ID, old.ID), encode(old), etag)
			if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) || ambiguous(ctx, err) {
				return nil, nil // look again
			}
			if err != nil {
				return nil, cosmosError(op, err)
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
	r, err := s.users.Patch(ctx, key(u.ID, u.ID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return nil, nil
	}
	var renamed *User
	if ambiguous(ctx, err) {
		if have, readErr := readUser(ctx, op, s.users, u.ID); readErr == nil && have != nil && have.Username == username && have.Revision == u.Revision+1 {
			renamed, err = have, nil
		}
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	if old != nil && old.OwnerID == u.ID {
		if _, err := old.release(ctx, s.users, etag, s.o.Clock()); err != nil {
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
	return decodeUser(op, r.Value)
}

// formerUsernames returns the names to keep for a user who takes another name, and those
// that are too many.
func formerUsernames(u *userItem, username string) (kept, freed []string) {
	taken := usernameKey(username)
	if usernameKey(u.Username) == taken {
		return u.FormerUsernames, nil
	}
	for _, name := range append(slices.Clone(u.FormerUsernames), u.Username) {
		if k := usernameKey(name); k != taken && (k != usernameKey(u.Username) || name == u.Username) {
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
	err = s.users.Delete(ctx, key(r.ID, r.ID), etag)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil
	}
	return cosmosError(op, err)
}

// release keeps a name that its owner has been seen without for releasedFor, or
// removes the reservation if the name was never carried. It does nothing if the
// reservation is not what was read any more, and reports whether it was.
func (r *usernameItem) release(ctx context.Context, users *cosmos.Container, etag cosmos.ETag, now time.Time) (bool, error) {
	var err error
	if r.Leaving {
		_, err = users.Replace(ctx, key(r.ID, r.ID), encode(r.releasing(NewDate(now))), etag)
	} else {
		err = users.Delete(ctx, key(r.ID, r.ID), etag)
	}
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, cosmosError("release username", err)
}

// sweepUsernames handles changes of the users container: it releases or removes
// reservations that are older than the grace and whose owners do not carry the names.
// What changes meanwhile is handled again.
func (s *Store) sweepUsernames(ctx context.Context, items [][]byte) error {
	var all []reservedName
	for _, raw := range items {
		var e envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Type != typeUsername || e.Deleted {
			continue // projectUsers sets aside what cannot be read
		}
		var r reservedName
		if err := json.Unmarshal(raw, &r); err != nil {
			s.setAside(usersContainer, raw, err)
			continue
		}
		if r.ID != r.Partition || !addressable(r.ID) {
			s.setAside(usersContainer, raw, errors.New("malformed id or userId"))
			continue
		}
		if r.TTL > 0 {
			continue // released
		}
		all = append(all, r)
	}
	unused, err := s.unused(ctx, all)
	if err != nil {
		return err
	}
	// Those that are carried stay so until they are written again.
	all = slices.DeleteFunc(all, func(r reservedName) bool { return !r.Leaving && !slices.Contains(unused, r) })
	if len(all) == 0 {
		return nil
	}
	newest := slices.MaxFunc(all, func(a, b reservedName) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) }).CreatedAt
	// However wrong a date may be, what was seen as long ago as the grace is old enough.
	for seen := s.now(); newest > graceBegan(s.o.Clock()) && seen > graceBegan(s.o.Clock()); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	if unused, err = s.unused(ctx, all); err != nil {
		return err
	}
	for _, r := range unused {
		done, err := r.release(ctx, s.background.users, r.ETag, s.o.Clock())
		if err != nil {
			return err
		}
		if done {
			s.o.Logger.Info("left-over username released", logItem, r.ID, logUser, r.OwnerID)
		}
	}
	return nil
}

// reservedName is a reservation as the change feed shows it.
type reservedName struct {
	usernameItem
	ETag cosmos.ETag `json:"_etag"`
}

// unused returns the reservations whose owners do not carry the names, as far as
// that can be known.
func (s *Store) unused(ctx context.Context, all []reservedName) ([]reservedName, error) {
	var owners []string
	for _, r := range all {
		owners = append(owners, r.OwnerID)
	}
	users, err := readUsers(ctx, s.background.users, owners, s.decodeAnyUser)
	if err != nil {
		return nil, err
	}
	var unused []reservedName
	for i, r := range all {
		if u := users[i]; u == nil || u.Username != "" && usernameKey(u.Username) != r.ID {
			unused = append(unused, r)
		}
	}
	return unused, nil
}

// young reports whether the owner of a reservation may still be about to carry the name.
func (r *usernameItem) young(now time.Time) bool { return r.CreatedAt > graceBegan(now) }

// graceBegan is the date of the youngest reservations that are honoured only if their
// owners carry the names.
func graceBegan(now time.Time) Date { return NewDate(now.Add(-reservationGrace)) }
