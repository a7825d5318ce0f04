package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
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

// authors reads the authors of writes, and caches them. It is safe for concurrent use.
type authors struct {
	*base
	sessions *sessions
	known    *otter.Cache[string, cachedAuthor] // by user id
}

// cachedAuthor is a user as read at a time, without the biography.
type cachedAuthor struct {
	blog.User
	read time.Time
}

func newAuthors(b *base, s *sessions) *authors {
	return &authors{b, s, otter.Must(&otter.Options[string, cachedAuthor]{MaximumSize: maxAuthors})}
}

// get returns a cached user. It may have been deleted since.
func (a *authors) get(id string) (blog.User, bool) {
	u, ok := a.known.GetIfPresent(id)
	return u.User, ok && time.Since(u.read) < authorLifetime
}

// put caches a user that was read or written, unless a newer state is cached: replicas may be behind.
func (a *authors) put(u *blog.User) {
	if u == nil {
		return
	}
	now := time.Now()
	a.known.Compute(u.UserID, func(have cachedAuthor, found bool) (cachedAuthor, otter.ComputeOp) {
		if found && now.Sub(have.read) < authorLifetime && isOlder(u, &have.User) {
			return have, otter.CancelOp
		}
		known := blog.User{Byline: u.Byline, CreatedAt: u.CreatedAt, Revision: u.Revision,
			FollowingCount: u.FollowingCount}
		known.DisplayName = strings.Clone(known.DisplayName) // not to keep the text of the item
		known.AvatarURL = strings.Clone(known.AvatarURL)
		return cachedAuthor{known, now}, otter.WriteOp
	})
}

// isOlder compares two states of a user, who may have been deleted and created again.
func isOlder(u, than *blog.User) bool {
	if u.CreatedAt != than.CreatedAt {
		return u.CreatedAt < than.CreatedAt
	}
	return u.Revision < than.Revision
}

func (a *authors) drop(id string) { a.known.Invalidate(id) }

// dropChanged drops the users among changed items, but those of whom only counts have changed, and then calls handle
// with the items.
func (a *authors) dropChanged(handle changefeed.Handler) changefeed.Handler {
	return func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			var item blog.UserItem
			if blog.Unmarshal(raw, &item, blog.Lenient) != nil || item.Type != blog.TypeUser {
				continue
			}
			a.known.ComputeIfPresent(item.UserID, func(have cachedAuthor) (cachedAuthor, otter.ComputeOp) {
				if item.Deleted || item.Revision != have.Revision || item.CreatedAt != have.CreatedAt {
					return have, otter.InvalidateOp
				}
				have.FollowingCount = item.FollowingCount
				return have, otter.WriteOp
			})
		}
		return handle(ctx, items)
	}
}

// decodeUser is blog.DecodeUser for a user that was just read, but returns nil for a deleted one even if the replica
// is behind.
func (a *authors) decodeUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if u == nil || err != nil || a.deletions.Hides(u.UserID, u.CreatedAt) {
		return nil, err
	}
	a.put(u)
	return u, nil
}

// readUser is User without the item cache.
func (a *authors) readUser(ctx context.Context, op, id string) (*blog.User, error) {
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := stored.Read(ctx, op, a.users, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return a.decodeUser(op, raw)
}

// readPrimaryUser is readUser from the primary replica.
func (a *authors) readPrimaryUser(ctx context.Context, op, id string) (*blog.User, error) {
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := a.users.ReadPrimary(ctx, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	return a.decodeUser(op, raw)
}

// byline returns the byline of the acting user. Forbidden if the user does not exist. A user who was deleted through
// another instance may be accepted for authorLifetime. A session that has changed a user reads the author, as it must
// not see an older name.
func (a *authors) byline(ctx context.Context, op, userID string) (blog.Byline, error) {
	u, err := a.author(ctx, op, userID)
	return u.Byline, err
}

// author is byline with the other properties that are cached.
func (a *authors) author(ctx context.Context, op, userID string) (blog.User, error) {
	if !a.sessions.hasChangedUser(cosmos.SessionFrom(ctx)) {
		if u, ok := a.get(userID); ok && !a.deletions.Hides(u.UserID, u.CreatedAt) {
			return u, nil
		}
	}
	u, err := a.readUser(ctx, op, userID)
	if u == nil && err == nil { // replicas may lag behind the creation
		u, err = a.readPrimaryUser(ctx, op, userID)
	}
	if err != nil {
		return blog.User{}, err
	}
	if u == nil {
		return blog.User{},
			&blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNoUser,
				Message: "you have no user yet: call createUser first"}
	}
	return *u, nil
}

// check checks the acting user of writes that do not read it. Forbidden if the user is deleted.
func (a *authors) check(ctx context.Context, op, userID string) error {
	a.deletions.Await(ctx)
	if a.deletions.HiddenUntil(userID) == "" {
		return nil
	}
	_, err := a.byline(ctx, op, userID) // the user may have been created again
	return err
}

// authorship limits a deletion to the items of one author, or allows it for all.
type authorship struct {
	userID string
	all    bool
}

func byAuthor(userID string) authorship { return authorship{userID: userID} }

// byModerator allows deletions of everyone's items.
var byModerator = authorship{all: true}

func (a authorship) includes(authorID string) bool { return a.all || a.userID == authorID }

// liveAndBy returns the condition of a patch: the item has the type and the author, and is not deleted.
func liveAndBy(typ, userID string) string {
	return fmt.Sprintf("from c where c.type = '%s' AND NOT IS_DEFINED(c.deleted) AND c.userId = '%s'", typ, userID)
}
