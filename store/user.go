package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
	"byline/store/username"
)

// sagaTimeout bounds the steps of creating or renaming a user.
const sagaTimeout = username.Grace / 2

// cachedUser is the name of a user in the item cache.
const cachedUser = "user"

// userStore reads and writes users.
type userStore struct {
	*base
	authors  *authors
	sessions *sessions
	names    *username.Names
	reserved username.Reserved
}

// User is Q1, one point read. It returns nil if the user does not exist.
func (s *userStore) User(ctx context.Context, id string) (*blog.User, error) {
	ctx = s.account.Begin(ctx, OneUser)
	return cached(ctx, s.users, id, cachedUser, func(ctx context.Context) (*blog.User, error) {
		return s.authors.readUser(ctx, "read user", id)
	})
}

// Users reads users in one request. result[i] is nil if ids[i] does not exist.
func (s *userStore) Users(ctx context.Context, ids []string) ([]*blog.User, error) {
	ctx = s.account.Begin(ctx, ManyUsers)
	return cachedMany(ctx, s.users, ids, cachedUser, func(ctx context.Context, ids []string) ([]*blog.User, error) {
		return stored.ReadUsers(ctx, s.users, ids, s.authors.decodeUser)
	})
}

// UserByUsername finds a user by name, ignoring case, or by a released name that is still kept
// for them: two point reads. It returns nil if the user does not exist.
func (s *userStore) UserByUsername(ctx context.Context, name string) (*blog.User, error) {
	const op = "read user by username"
	ctx = s.account.Begin(ctx, ByUsername)
	if username.Check(op, name) != nil {
		return nil, nil
	}
	k := username.Key(name)
	reservation, err := cached(ctx, s.users, k, "username", func(ctx context.Context) (*username.Reservation, error) {
		item, _, err := s.names.Read(ctx, op, name)
		return item, err
	})
	if reservation == nil || err != nil {
		return nil, err
	}
	u, err := s.User(ctx, reservation.OwnerID)
	if u == nil || err != nil || username.Key(u.Username) != reservation.ID && !reservation.Kept(s.o.Clock()) {
		return nil, err // reserved for a create or rename that has not ended
	}
	return u, nil
}

// NewUser is a user to create. ID comes from blog.UserID.
type NewUser struct {
	ID       string
	Username string
	Key      string // the idempotency key, or ""
}

// Validate returns an Error for each invalid field, joined.
func (n NewUser) Validate() error {
	const op = "create user"
	return errors.Join(username.Check(op, normalizeLine(n.Username)), checkKey(op, n.Key))
}

// CreateUser is C1: it reserves the name, then creates the user. Conflict if the name is taken (Field is
// "username"), or the id already has a user or one whose deletion has not ended. After a crash between the
// two steps the same user can try again.
func (s *userStore) CreateUser(ctx context.Context, n NewUser) (*blog.User, error) {
	const op = "create user"
	ctx = s.account.Begin(ctx, WriteUser)
	if err := n.Validate(); err != nil {
		return nil, err
	}
	n.Username = normalizeLine(n.Username)
	ctx, cancel := context.WithTimeout(ctx, sagaTimeout)
	defer cancel()
	item := blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser}, ItemID: n.ID,
		InputDigest: inputDigest(n.Key, n.Key, n.Username),
		User: blog.User{Byline: blog.Byline{UserID: n.ID, Username: n.Username}, CreatedAt: s.now(),
			Revision: 1}}
	// Check first, because a name must not be reserved for an existing user.
	existing, err := s.existingUser(ctx, op, item)
	if existing != nil || err != nil {
		return existing, err
	}
	if err := s.reserved.Check(op, n.Username); err != nil {
		return nil, err
	}
	if err := s.names.Reserve(ctx, op, n.ID, n.Username); err != nil {
		return nil, err
	}
	err = s.users.Create(ctx, n.ID, blog.Encode(item))
	if cosmos.HasStatus(err, http.StatusConflict) {
		if existing, err := s.existingUser(ctx, op, item); existing != nil || err != nil {
			return existing, err
		}
	}
	if stored.Ambiguous(ctx, err) {
		if have, readErr := stored.ReadUser(ctx, op, s.users, n.ID); readErr == nil && have != nil &&
			have.CreatedAt == item.CreatedAt && have.Username == n.Username {
			return have, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	if lost, err := s.names.Lost(ctx, op, n.ID, n.Username); err != nil {
		return nil, err
	} else if lost {
		return nil, s.undoCreate(ctx, op, &item.User)
	}
	s.authors.put(&item.User)
	return &item.User, nil
}

// undoCreate deletes a user that was just created and lost the name, and returns Conflict.
func (s *userStore) undoCreate(ctx context.Context, op string, u *blog.User) error {
	defer s.authors.drop(u.UserID)
	key := stored.Key(u.UserID, u.UserID)
	r, err := s.users.Read(ctx, key)
	if err != nil {
		return stored.Error(op, err)
	}
	if r.Value != nil {
		have, malformed := blog.DecodeUser(op, r.Value)
		if malformed != nil {
			return malformed
		}
		if have != nil && have.Revision == u.Revision {
			err = s.users.Delete(ctx, key, r.ETag)
		}
	}
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return stored.Error(op, err)
	}
	return username.ErrTaken(op)
}

// existingUser returns the user of an earlier attempt with the same idempotency key, nil if there is no
// user, and Conflict if the user was created otherwise or is being deleted.
func (s *userStore) existingUser(ctx context.Context, op string, item blog.UserItem) (*blog.User, error) {
	raw, err := stored.Read(ctx, op, s.users, stored.Key(item.UserID, item.UserID))
	if raw == nil && err == nil && s.deletions.Hides(item.UserID, item.CreatedAt) {
		err = s.beingDeleted(op, item.UserID, "")
	}
	if raw == nil || err != nil {
		return nil, err
	}
	have, ok, err := blog.Decode[blog.UserItem](op, blog.TypeUser, raw)
	if err == nil && have.Type == blog.TypeUser && (have.Deleted || s.deletions.Hides(have.UserID, have.CreatedAt)) {
		return nil, s.beingDeleted(op, have.UserID, have.DeletedAt)
	}
	if !ok {
		return nil, err
	}
	if item.InputDigest != "" && have.InputDigest == item.InputDigest {
		return &have.User, nil
	}
	return nil, &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonHasUser,
		Message: "you already have a user; rename it with updateUser"}
}

// beingDeleted returns the Conflict of a user that is created again too early. deleted is "" if the item is
// gone, or if the replica that it was read from is behind.
func (s *userStore) beingDeleted(op, userID string, deleted blog.Date) error {
	const atLeast = 5 * time.Second // between attempts
	until := s.deletions.HiddenUntil(userID)
	if deleted != "" {
		until = blog.NewDate(deleted.Time().Add(blog.DeletionGrace))
	}
	left := until.Time().Sub(s.o.Clock())
	return &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonBeingDeleted, RetryAfter: max(left, atLeast),
		Message: "your former user is still being deleted; try again later"}
}

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

// Empty reports whether there are no users. It queries all partitions: call it when a process starts, never
// on the request path.
func (s *userStore) Empty(ctx context.Context) (bool, error) {
	ctx = s.account.Begin(ctx, Readiness)
	for users, err := range s.background.users.Query(ctx,
		cosmos.Query{Text: "SELECT c.id FROM c WHERE c.type = 'user'", AllPartitions: true, PageSize: 1}) {
		if err != nil {
			return false, stored.Error("look for users", err)
		}
		if len(users) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// maxCountedItems bounds UserItems: to count these takes ten requests.
const maxCountedItems = 10_000

// UserItems counts the posts, comments, likes and follows of a user, and what is below the posts. It stops after
// maxCountedItems items, and queries all partitions: call it for reports.
func (s *userStore) UserItems(ctx context.Context, userID string) (n blog.Items, err error) {
	const op = "count items of user"
	ctx = s.beginRead(ctx, UserItems)
	query := cosmos.Query{AllPartitions: true, PageSize: maxCountedItems / 10,
		Text: "SELECT c.type, c.tags, c.commentCount, c.likeCount FROM c WHERE c.userId = @user AND " +
			"c.type IN ('post', 'comment', 'like') AND NOT IS_DEFINED(c.deleted)"}.With("@user", userID)
	u, err := s.User(ctx, userID)
	if u == nil || err != nil {
		return n, err
	}
	n.Followers, n.Following = int(u.FollowerCount), int(u.FollowingCount)
	for page, err := range s.posts.Query(ctx, query) {
		if err != nil {
			return n, stored.Error(op, err)
		}
		for _, raw := range page {
			item := struct {
				Type                    string
				Tags                    []string
				CommentCount, LikeCount int
			}{}
			if err := json.Unmarshal(raw, &item); err != nil {
				return n, blog.Malformed(op, "item", err)
			}
			if item.Type == blog.TypePost {
				n.Posts++
			} else {
				n.Others++
			}
			n.Tags += len(item.Tags)
			n.Below += item.CommentCount + item.LikeCount
		}
		if n.Posts+n.Others >= maxCountedItems {
			break
		}
	}
	return n, nil
}

func noUser(op string) error {
	return &blog.Error{Code: blog.NotFound, Op: op, Message: "user not found"}
}
