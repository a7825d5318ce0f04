package seed

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"byline/store"
	"byline/store/blog"
)

// workers is the number of users imported concurrently.
const workers = 8

// Target is the destination of a load. store.Store implements it and documents its methods.
type Target interface {
	Import(ctx context.Context, u *blog.User, threads iter.Seq[store.Thread]) error
	ImportFeed(ctx context.Context, posts []*blog.Post) error
}

// Load writes a blog. It keeps existing items. It writes the first user's posts first, and into the feed, so
// that readers see something early. progress, if set, is called with the number of posts written so far, by
// several goroutines at once.
func Load(ctx context.Context, b Blog, to Target, progress func(posts int)) error {
	var next, done atomic.Int64
	covers := make([]string, len(articles())) // by user
	cover := func(i int) string {
		if i < len(covers) {
			return covers[i]
		}
		return ""
	}
	load := func(ctx context.Context, i int) (err error) {
		if i < len(covers) {
			if covers[i], err = b.Covers.of(ctx, &b, i); err != nil {
				return fmt.Errorf("cover of user %d: %w", i, err)
			}
		}
		if err := to.Import(ctx, b.User(i), b.threads(i, cover(i))); err != nil {
			return fmt.Errorf("user %d: %w", i, err)
		}
		if i == 0 {
			var posts []*blog.Post
			for t := range b.threads(i, cover(i)) {
				posts = append(posts, t.Post)
			}
			if err := to.ImportFeed(ctx, posts); err != nil {
				return err
			}
		}
		if n := done.Add(int64(b.PostCount(i))); progress != nil {
			progress(int(n))
		}
		return nil
	}
	if err := load(ctx, 0); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error {
			for i := int(next.Add(1)); i < b.Users; i = int(next.Add(1)) {
				if err := gctx.Err(); err != nil {
					return err
				}
				if err := load(gctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var newest []*blog.Post
	for _, e := range b.newest(blog.FeedKept) {
		newest = append(newest, b.thread(e.user, e.number, cover(e.user)).Post)
	}
	return to.ImportFeed(ctx, newest)
}

// Follow has each user of a blog follow up to four others. Repeating it changes nothing. The users exist.
func Follow(ctx context.Context, b Blog, s *store.Store) error {
	for i := range b.Users {
		for _, other := range choose(b.random(i, userStream+2), min(4, b.Users), b.Users) {
			if other == i {
				continue
			}
			if _, err := s.FollowUser(ctx, b.byline(i).UserID, b.byline(other).UserID); err != nil {
				return fmt.Errorf("follow of user %d: %w", i, err)
			}
		}
	}
	return nil
}

// threads returns a user's posts with their comments and likes, one at a time, given the cover of the first.
func (b *Blog) threads(user int, cover string) iter.Seq[store.Thread] {
	return func(yield func(store.Thread) bool) {
		for n := range b.PostCount(user) {
			if !yield(b.thread(user, n, cover)) {
				return
			}
		}
	}
}

// thread is Thread, with the cover of the user's first post.
func (b *Blog) thread(user, number int, cover string) store.Thread {
	t := b.Thread(user, number)
	if number == 0 && cover != "" {
		t.Post.CoverURL, t.Post.CoverAlt = cover, b.article(user, 0).cover
	}
	return t
}

// LoadOffline loads a blog into a database that no instance serves, so that its projections need not read the load:
// see projection.Views.BeginLoad. Conflict if an instance serves it.
func LoadOffline(ctx context.Context, b Blog, to *store.Store, progress func(posts int)) error {
	end, err := to.Views().BeginLoad(ctx)
	if err != nil {
		return err
	}
	if err := Load(ctx, b, to, progress); err != nil {
		return err
	}
	return end(ctx)
}

// Other reports whether the store holds a blog of the same seed but with other parameters, such as the
// number of users. Its posts have the same ids and other contents, so b cannot be loaded over it. Other
// compares comments on the first posts to load, whose authors depend on all parameters.
func Other(ctx context.Context, s *store.Store, b Blog) (bool, error) {
	for n := range min(b.PostCount(0), 3) {
		for _, want := range b.Thread(0, n).Comments {
			have, err := s.Comment(ctx, want.PostID, want.ID)
			if err != nil {
				return false, err
			}
			if have == nil {
				break // most likely the thread was not loaded
			}
			if have.UserID != want.UserID {
				return true, nil
			}
		}
	}
	return false, nil
}

// WithDatesOf returns b with the dates that it has in a store, if a load into it has begun, perhaps on another day.
func (b Blog) WithDatesOf(ctx context.Context, s *store.Store) (Blog, error) {
	user, post := b.User(0), b.Thread(0, 0).Post // the post is written before its author
	stored, expected := blog.Date(""), user.CreatedAt
	u, err := s.User(ctx, user.UserID)
	if err != nil {
		return b, err
	}
	if u != nil {
		stored = u.CreatedAt
	} else if p, err := s.Post(ctx, post.ID); err != nil {
		return b, err
	} else if p != nil {
		stored, expected = p.CreatedAt, post.CreatedAt
	}
	if stored != "" {
		b.Ends = b.Ends.Add(stored.Time().Sub(expected.Time()))
	}
	return b, nil
}

// Needed reports whether a blog should be loaded: the store is empty, or an earlier Load was interrupted. It
// returns false if only the feed is missing, which the projections fill.
func Needed(ctx context.Context, s *store.Store, b Blog) (bool, error) {
	empty, err := s.Empty(ctx)
	if empty || err != nil {
		return empty, err
	}
	some, all := false, true
	for i := range b.Users {
		want := b.User(i)
		u, err := s.User(ctx, want.UserID)
		if err != nil {
			return false, err
		}
		if u == nil {
			all = false
			continue
		}
		if u.CreatedAt != want.CreatedAt {
			continue // a real user, not a seeded one
		}
		some = true
		holder, err := s.UserByUsername(ctx, u.Username)
		if err != nil {
			return false, err
		}
		all = all && holder != nil
	}
	return some && !all, nil
}
