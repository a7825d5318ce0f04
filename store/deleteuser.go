package store

import (
	"context"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// DeleteUser deletes the caller's user, whose username the caller repeats: one conditional patch makes the
// user item a tombstone. From then on readers see neither the user nor their posts, and comments and likes
// on the posts of others without a username. The projections then delete all of it; until they have, a
// repetition changes nothing. NotFound if the user does not exist, Invalid (Field is "username") if username
// is not the user's.
func (s *userStore) DeleteUser(ctx context.Context, userID, username string) error {
	const op = "delete user"
	ctx = s.account.Begin(ctx, DeleteUser)
	cosmos.SessionFrom(ctx).MarkWritten() // also if a repetition has nothing to write
	if !blog.ValidID(userID) {
		return noUser(op)
	}
	username = normalizeLine(username)
	for attempt := range 4 {
		read := s.newestUserOrTombstone
		if attempt == 0 {
			read = s.userOrTombstone // its replica may be behind
		}
		u, err := read(ctx, op, userID)
		switch {
		case err != nil:
			return err
		case attempt == 0 && (u == nil || u.Username != username):
			continue
		case u == nil:
			return noUser(op)
		case u.Username != username:
			return blog.Invalidf(op, "username", blog.ReasonMismatch, "must repeat the current username, with the same case")
		}
		deleted := u.DeletedAt
		if !u.Deleted {
			deleted, err = s.markDeleted(ctx, op, u)
		}
		if err != nil {
			return err
		}
		if deleted != "" { // otherwise the user was changed meanwhile
			s.sessions.noteDeletion(cosmos.SessionFrom(ctx), userID, deleted)
			s.deletions.Hide(userID, deleted.Time())
			return nil
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
		Message: "another request is changing the user; try again"}
}

// userOrTombstone reads a user item. It returns nil if the item does not exist.
func (s *userStore) userOrTombstone(ctx context.Context, op, userID string) (*blog.UserItem, error) {
	raw, err := stored.Read(ctx, op, s.users, stored.Key(userID, userID))
	if raw == nil || err != nil {
		return nil, err
	}
	return blog.DecodeUserOrTombstone(op, raw)
}

// newestUserOrTombstone is userOrTombstone from the primary replica.
func (s *userStore) newestUserOrTombstone(ctx context.Context, op, userID string) (*blog.UserItem, error) {
	raw, err := s.users.ReadPrimary(ctx, stored.Key(userID, userID))
	if raw == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	return blog.DecodeUserOrTombstone(op, raw)
}

// markDeleted makes a user a tombstone and returns its date, or "" if the user was changed meanwhile.
func (s *userStore) markDeleted(ctx context.Context, op string, u *blog.UserItem) (blog.Date, error) {
	date := s.now()
	var p cosmos.Patch
	p.Condition = fmt.Sprintf("from c where c.revision = %d AND NOT IS_DEFINED(c.deleted)", u.Revision)
	p.Set("/deleted", true)
	p.Set("/deletionDate", date)
	p.Increment("/revision", 1)
	_, err := s.users.Patch(ctx, stored.Key(u.UserID, u.UserID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return "", nil
	}
	if stored.Ambiguous(ctx, err) {
		if have, readErr := s.newestUserOrTombstone(ctx, op, u.UserID); readErr == nil && have != nil && have.Deleted &&
			have.DeletedAt == date {
			return date, nil
		}
	}
	return date, stored.Error(op, err)
}
