package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/projection"
)

// The deletion of a user begins when the user item becomes a tombstone without TTL. The projections
// then delete everything the user wrote, and the item last. In the meantime reads hide all of it: every
// instance learns of the users being deleted from its own mutations, the session tokens, a tail of the users
// container and, at the start, the list of jobs.

const (
	deletionWait    = 500 * time.Millisecond // longest wait of a read for the first list of jobs and for the tail
	deletionRetry   = 10 * time.Second       // time until reads wait again after a timeout, and until a failed list is retried
	deletionRecheck = time.Minute            // interval of lists of jobs and of checks for ended deletions
)

// deletions are the users being deleted that this instance knows of.
type deletions struct {
	any    atomic.Bool // whether there are any
	mu     sync.Mutex
	hidden sync.Map // user id to blog.Date: items the user created before it are hidden; written under mu

	starting atomic.Pointer[<-chan struct{}] // closed or nil once the deletions that began before Run are known
	tail     atomic.Pointer[cosmos.Tail]     // nil: reads do not wait for the tail
	waiting  atomic.Int64                    // reads wait for neither before this time, in Unix nanoseconds
}

// hides reports whether an item that a user created is hidden. Items of a user created again later are not.
func (d *deletions) hides(userID string, created blog.Date) bool {
	return d.any.Load() && created < d.hiddenUntil(userID)
}

// hiddenUntil returns the date before which a user's items are hidden, "" if none are.
func (d *deletions) hiddenUntil(userID string) blog.Date {
	if until, ok := d.hidden.Load(userID); ok {
		return until.(blog.Date)
	}
	return ""
}

// add hides the items that a user created before a date. It returns false if they were hidden already.
func (d *deletions) add(userID string, until blog.Date) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hiddenUntil(userID) >= until {
		return false
	}
	d.hidden.Store(userID, until)
	d.any.Store(true)
	return true
}

// remove removes the ended deletions among those that users returned. A later deletion of the same user stays.
func (d *deletions) remove(ended map[string]blog.Date) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, until := range ended {
		d.hidden.CompareAndDelete(id, until)
	}
	left := false
	d.hidden.Range(func(any, any) bool { left = true; return false })
	d.any.Store(left)
}

// users returns the users by id, with the date before which their items are hidden.
func (d *deletions) users() map[string]blog.Date {
	all := map[string]blog.Date{}
	d.hidden.Range(func(id, until any) bool { all[id.(string)] = until.(blog.Date); return true })
	return all
}

// HidesUsers reports whether any user's posts are hidden.
func (s *Store) HidesUsers() bool { return s.deletions.any.Load() }

// hide hides a deleted user, and what they wrote, from now on.
func (s *Store) hide(userID string, deleted time.Time) {
	if !s.deletions.add(userID, blog.NewDate(deleted.Add(blog.DeletionGrace))) {
		return
	}
	s.account.Invalidate() // after add, so that no read caches hidden items
	s.events.endOfAuthor(userID)
}

// shown returns a post, or nil if it is hidden.
func (s *Store) shown(p *blog.Post) *blog.Post {
	if p == nil || s.deletions.hides(p.AuthorID, p.CreatedAt) {
		return nil
	}
	return p
}

// showPost, showComment and showLike prepare an item for readers. They return false for a hidden item.
func (s *Store) showPost(p *blog.Post) bool { return s.shown(p) != nil }

func (s *Store) showComment(c *blog.Comment) bool {
	if s.deletions.hides(c.AuthorID, c.CreatedAt) {
		c.AuthorUsername = ""
	}
	return true
}

func (s *Store) showLike(l *blog.Like) bool {
	if s.deletions.hides(l.UserID, l.CreatedAt) {
		l.Username = ""
	}
	return true
}

// decodeUser is blog.DecodeUser, but returns nil for a deleted user even if the replica is behind.
func (s *Store) decodeUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if u == nil || err != nil || s.deletions.hides(u.ID, u.CreatedAt) {
		return nil, err
	}
	return u, nil
}

// decodePost is blog.DecodePost for a write. NotFound if the post is hidden.
func (s *Store) decodePost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if p != nil && s.shown(p) == nil {
		return nil, noPost(op)
	}
	return p, err
}

// writtenPost is decodePost for a post whose counts were just written.
func (s *Store) writtenPost(ctx context.Context, op string, raw []byte) (*blog.Post, error) {
	p, err := s.decodePost(op, raw)
	if p != nil && err == nil {
		s.noteCounts(ctx, p)
	}
	return p, err
}

// beginRead begins a read, which must hide users that were deleted through another instance longer than
// deletionLag ago. Reads of users do not need it: a user item itself says that it is deleted.
func (s *Store) beginRead(ctx context.Context, p cosmos.Pattern) context.Context {
	ctx = s.account.Begin(ctx, p)
	s.awaitDeletions(ctx)
	return ctx
}

// DeletionsKnown reports whether this instance knows of all deletions up to deletionLag ago, as far as Run
// follows them. If not, it wakes the tail, and the next read waits for it.
func (s *Store) DeletionsKnown() bool {
	tail := s.deletions.tail.Load()
	return s.deletions.starting.Load() == nil && (tail == nil || tail.CaughtUp(s.deletionLag()))
}

// deletionLag returns how long deletions of users may be unknown to other instances.
func (s *Store) deletionLag() time.Duration { return projection.IdleInterval(s.o.PollInterval) }

// awaitDeletions waits until this instance knows of all deletions up to deletionLag ago: after Run begins,
// for the first list of jobs; after a pause without reads, for one poll. It does not wait while the tail
// fails, for example when throttled, and waits deletionWait at most.
func (s *Store) awaitDeletions(ctx context.Context) {
	if s.DeletionsKnown() || time.Now().UnixNano() < s.deletions.waiting.Load() {
		return
	}
	within, cancel := context.WithTimeout(ctx, deletionWait)
	defer cancel()
	if starting := s.deletions.starting.Load(); starting != nil {
		select {
		case <-*starting:
		case <-within.Done():
		}
	}
	if tail := s.deletions.tail.Load(); tail != nil && !tail.Failing() {
		_ = tail.CatchUp(within, s.deletionLag())
	}
	if within.Err() != nil && ctx.Err() == nil {
		s.deletions.waiting.Store(time.Now().Add(deletionRetry).UnixNano())
	}
}

// checkAuthor checks the acting user of writes that do not read it. Forbidden if the user is deleted.
func (s *Store) checkAuthor(ctx context.Context, op, userID string) error {
	s.awaitDeletions(ctx)
	if s.deletions.hiddenUntil(userID) == "" {
		return nil
	}
	_, err := s.author(ctx, op, userID) // the user may have been created again
	return err
}

// learnDeletions handles changes of the users container. It skips malformed items, which the
// projections report.
func (s *Store) learnDeletions(_ context.Context, items [][]byte) error {
	for _, raw := range items {
		var e blog.AnyItem
		if blog.Unmarshal(raw, &e, blog.Lenient) != nil || e.Type != blog.TypeUser || !e.Deleted {
			continue
		}
		if u, err := blog.DecodeUserOrTombstone("learn of deletions", raw); err == nil && u != nil && u.DeletedAt != "" {
			s.hide(u.ID, u.DeletedAt.Time())
		}
	}
	return nil
}

// runUsers follows the changes of users until ctx ends, for the item cache and for deletions.
func (s *Store) runUsers(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	starting, started := context.WithCancel(ctx)
	done := starting.Done()
	s.deletions.starting.Store(&done)
	defer s.deletions.starting.Store(nil)
	tail := s.tail("cache-users", s.users, "userId", s.learnDeletions, wokenByReads, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-tail.Ready():
		case <-ctx.Done():
			return
		}
		if s.users.Caches() {
			s.deletions.tail.Store(tail)
			defer s.deletions.tail.Store(nil)
		}
		s.keepDeletions(ctx, func() {
			s.deletions.starting.Store(nil)
			started()
		})
	})
	err := tail.Run(ctx)
	cancel()
	wg.Wait()
	started()
	return err
}

// keepDeletions learns of the deletions that began before the tail, and forgets those that have ended, until
// ctx ends. It lists the jobs periodically, as projections that are behind enqueue jobs late. It calls listed
// after each list.
func (s *Store) keepDeletions(ctx context.Context, listed func()) {
	for wait := deletionRetry; ; wait = deletionRecheck { // usually a job follows its mutation within seconds
		err := s.listDeletions(ctx)
		if err == nil {
			listed()
		}
		if err := errors.Join(err, s.forgetDeletions(ctx)); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("deletions of users not listed, retrying", logError, err)
			wait = deletionRetry
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// listDeletions hides the users that jobs are deleting.
func (s *Store) listDeletions(ctx context.Context) error {
	const op = "list deletions"
	var ids []string
	query := cosmos.Query{Text: "SELECT c.subject FROM c WHERE c.kind = 'deleteUser'", AllPartitions: true}
	for page, err := range s.background.leases.Query(cosmos.WithPattern(ctx, DeleteUser), query) {
		if err != nil {
			return blog.CosmosError(op, err)
		}
		for _, raw := range page {
			var job struct {
				Subject string `json:"subject"`
			}
			if json.Unmarshal(raw, &job) == nil {
				ids = append(ids, job.Subject)
			}
		}
	}
	users, err := s.usersOrTombstones(ctx, op, ids)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u != nil && u.Deleted && u.DeletedAt != "" {
			s.hide(u.ID, u.DeletedAt.Time())
		}
	}
	return nil
}

// forgetDeletions forgets the users whose deletion has ended: the user item is gone, or was created again.
func (s *Store) forgetDeletions(ctx context.Context) error {
	ended := s.deletions.users()
	ids := slices.Collect(maps.Keys(ended))
	users, err := s.usersOrTombstones(ctx, "forget deletions", ids)
	if err != nil {
		return err
	}
	for i, u := range users {
		if u != nil && (u.Deleted || u.CreatedAt < ended[ids[i]]) {
			delete(ended, ids[i])
		}
	}
	s.deletions.remove(ended)
	return nil
}

// usersOrTombstones reads user items at low priority: nil for those that do not exist.
func (s *Store) usersOrTombstones(ctx context.Context, op string, ids []string) ([]*blog.UserItem, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return blog.ReadAll(cosmos.WithPattern(ctx, DeleteUser), op, s.background.users, ids,
		func(id string) cosmos.Key { return blog.Key(id, id) },
		blog.DecodeUserOrTombstone, func(u *blog.UserItem) string { return u.ID })
}
