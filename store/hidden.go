package store

import (
	"context"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/deletion"
	"byline/store/projection"
)

// newDeletions returns the tracker of the users being deleted, whose posts, comments and likes this file hides.
func (s *Store) newDeletions() *deletion.Tracker {
	return deletion.New(deletion.Options{
		Tail: func(h changefeed.Handler) *itemcache.Tail {
			return s.tail("cache-users", s.users, "userId", s.authors.dropChanged(h), wokenByReads, nil)
		},
		WaitsForTail: s.users.Caches(), Lag: projection.IdleInterval(s.o.PollInterval),
		Hidden: func(userID string) {
			s.account.Invalidate() // after the user is hidden, so that no read caches hidden items
			s.events.EndOfAuthor(userID)
		},
		Users: s.background.users, Leases: s.background.leases, Logger: s.o.Logger})
}

// HidesUsers is deletion.Tracker.Any.
func (s *Store) HidesUsers() bool { return s.deletions.Any() }

// visible returns a post, or nil if it is hidden.
func (s *Store) visible(p *blog.Post) *blog.Post {
	if p == nil || s.deletions.Hides(p.UserID, p.CreatedAt) {
		return nil
	}
	return p
}

// showPost, showComment and showLike prepare an item for readers. They return false for a hidden item.
func (s *Store) showPost(p *blog.Post) bool { return s.visible(p) != nil }

func (s *Store) showComment(c *blog.Comment) bool {
	if s.deletions.Hides(c.UserID, c.CreatedAt) {
		c.Byline = blog.Byline{UserID: c.UserID}
	}
	return true
}

func (s *Store) showLike(l *blog.Like) bool {
	if s.deletions.Hides(l.UserID, l.CreatedAt) {
		l.Byline = blog.Byline{UserID: l.UserID}
	}
	return true
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

// decodePost is blog.DecodePost for a write. NotFound if the post is hidden.
func (s *Store) decodePost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if p != nil && s.visible(p) == nil {
		return nil, blog.NoPost(op)
	}
	return p, err
}

// beginRead begins a read, which must hide users that were deleted through another instance longer ago than
// the tracker's lag. Reads of users do not need it: a user item itself says that it is deleted.
func (s *Store) beginRead(ctx context.Context, p cosmos.Pattern) context.Context {
	ctx = s.account.Begin(ctx, p)
	s.deletions.Await(ctx)
	return ctx
}

// DeletionsKnown is deletion.Tracker.Known.
func (s *Store) DeletionsKnown() bool { return s.deletions.Known() }

// checkAuthor checks the acting user of writes that do not read it. Forbidden if the user is deleted.
func (s *Store) checkAuthor(ctx context.Context, op, userID string) error {
	s.deletions.Await(ctx)
	if s.deletions.HiddenUntil(userID) == "" {
		return nil
	}
	_, err := s.author(ctx, op, userID) // the user may have been created again
	return err
}
