package store

import (
	"context"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// A write needs its author's byline, and that the author exists. Reading the user for each write would double the
// round trips of a like, and the item cache rarely has it: every summary that is written into a user's partition
// invalidates it. So an instance caches the authors that it has read, for authorLifetime. A username that is outdated
// by then is corrected by the projections, as one that is written during a rename; what an author writes
// after their deletion is found by the second pass of the deletion, which begins blog.DeletionGrace after it.
const (
	authorLifetime = 20 * time.Second
	maxAuthors     = 1 << 14 // cached, mostly of 200 bytes each, and at most of 1 KB
)

// authors caches users for the writes of which they are the author. It is safe for concurrent use.
type authors struct {
	known *otter.Cache[string, author] // by user id
}

// author is a user as read at a time, without the biography.
type author struct {
	blog.User
	read time.Time
}

func newAuthors() authors {
	return authors{otter.Must(&otter.Options[string, author]{MaximumSize: maxAuthors})}
}

// get returns a cached user. It may have been deleted since.
func (a authors) get(id string) (blog.User, bool) {
	u, ok := a.known.GetIfPresent(id)
	return u.User, ok && time.Since(u.read) < authorLifetime
}

// put caches a user that was read or written, unless a newer state is cached: replicas may be behind.
func (a authors) put(u *blog.User) {
	if u == nil {
		return
	}
	now := time.Now()
	a.known.Compute(u.UserID, func(have author, found bool) (author, otter.ComputeOp) {
		if found && now.Sub(have.read) < authorLifetime && isOlder(u, &have.User) {
			return have, otter.CancelOp
		}
		known := blog.User{Byline: u.Byline, CreatedAt: u.CreatedAt, Revision: u.Revision}
		known.DisplayName = strings.Clone(known.DisplayName) // not to keep the text of the item
		known.AvatarURL = strings.Clone(known.AvatarURL)
		return author{known, now}, otter.WriteOp
	})
}

// isOlder compares two states of a user, who may have been deleted and created again.
func isOlder(u, than *blog.User) bool {
	if u.CreatedAt != than.CreatedAt {
		return u.CreatedAt < than.CreatedAt
	}
	return u.Revision < than.Revision
}

func (a authors) drop(id string) { a.known.Invalidate(id) }

// dropChanged drops the users among changed items, and then calls handle with the items.
func (a authors) dropChanged(handle changefeed.Handler) changefeed.Handler {
	return func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			var item blog.Authored
			if blog.Unmarshal(raw, &item, blog.Lenient) == nil && item.Type == blog.TypeUser {
				a.drop(item.UserID)
			}
		}
		return handle(ctx, items)
	}
}

// decodeUser is blog.DecodeUser for a user that was just read, but returns nil for a deleted one even if the replica
// is behind.
func (s *Store) decodeUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if u == nil || err != nil || s.deletions.Hides(u.UserID, u.CreatedAt) {
		return nil, err
	}
	s.authors.put(u)
	return u, nil
}

// author returns the byline of the acting user. Forbidden if the user does not exist. A user who was deleted through
// another instance may be accepted for authorLifetime. A session that has changed a user reads the author, as it must
// not see an older name.
func (s *Store) author(ctx context.Context, op, userID string) (blog.Byline, error) {
	if !s.hasChangedUser(cosmos.SessionFrom(ctx)) {
		if u, ok := s.authors.get(userID); ok && !s.deletions.Hides(u.UserID, u.CreatedAt) {
			return u.Byline, nil
		}
	}
	u, err := s.readUser(ctx, op, userID)
	if u == nil && err == nil { // replicas may lag behind the creation
		u, err = s.readPrimaryUser(ctx, op, userID)
	}
	if err != nil {
		return blog.Byline{}, err
	}
	if u == nil {
		return blog.Byline{},
			&blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNoUser,
				Message: "you have no user yet: call createUser first"}
	}
	return u.Byline, nil
}

// checkAuthor checks the acting user of writes that do not read it. Forbidden if the user is deleted.
func (s *Store) checkAuthor(ctx context.Context, op, userID string) error {
	s.deletions.Await(ctx)
	if s.deletions.HiddenUntil(userID) == "" {
		return nil
	}
	_, err := s.author(ctx, op, userID) // the user may have been created again
	return err
}
