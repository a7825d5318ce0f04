package deletion

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// Pattern is the access pattern of the tracker's reads, and of the deletion of a user.
const Pattern cosmos.Pattern = "deleteUser"

const (
	wait    = 500 * time.Millisecond // longest wait of a read for the first list of jobs and for the tail
	retry   = 10 * time.Second       // time until reads wait again after a timeout, and until a failed list is retried
	recheck = time.Minute            // interval of lists of jobs and of checks for ended deletions
)

// Options are what a Tracker needs of its store.
type Options struct {
	// Tail returns a tail of the changes of users, which calls handle.
	Tail func(handle changefeed.Handler) *itemcache.Tail

	// WaitsForTail is whether reads wait for the tail, since they may be answered from caches.
	WaitsForTail bool

	// Lag is how long deletions may be unknown to other instances: the longest interval between polls of the tail.
	Lag time.Duration

	// Hidden is called after a user has been hidden.
	Hidden func(userID string)

	Users, Leases *cosmos.Container // for reads at low priority
	Logger        *slog.Logger
}

// Tracker has the users being deleted that this instance knows of. It is safe for concurrent use.
type Tracker struct {
	o Options

	any    atomic.Bool // whether there are any
	mu     sync.Mutex
	hidden sync.Map // user id to blog.Date: items the user created before it are hidden; written under mu

	starting atomic.Pointer[<-chan struct{}] // closed or nil once the deletions that began before Run are known
	tail     atomic.Pointer[itemcache.Tail]  // nil: reads do not wait for the tail
	waiting  atomic.Int64                    // reads wait for neither before this time, in Unix nanoseconds
}

// New returns a Tracker that knows of no deletion.
func New(o Options) *Tracker { return &Tracker{o: o} }

// Hides reports whether an item that a user created is hidden. Items of a user created again later are not.
func (t *Tracker) Hides(userID string, created blog.Date) bool {
	return t.any.Load() && created < t.HiddenUntil(userID)
}

// HiddenUntil returns the date before which a user's items are hidden, "" if none are.
func (t *Tracker) HiddenUntil(userID string) blog.Date {
	if until, ok := t.hidden.Load(userID); ok {
		return until.(blog.Date)
	}
	return ""
}

// add hides the items that a user created before a date. It returns false if they were hidden already.
func (t *Tracker) add(userID string, until blog.Date) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.HiddenUntil(userID) >= until {
		return false
	}
	t.hidden.Store(userID, until)
	t.any.Store(true)
	return true
}

// remove removes the ended deletions among those that users returned. A later deletion of the same user stays.
func (t *Tracker) remove(ended map[string]blog.Date) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, until := range ended {
		t.hidden.CompareAndDelete(id, until)
	}
	left := false
	t.hidden.Range(func(any, any) bool { left = true; return false })
	t.any.Store(left)
}

// users returns the users by id, with the date before which their items are hidden.
func (t *Tracker) users() map[string]blog.Date {
	all := map[string]blog.Date{}
	t.hidden.Range(func(id, until any) bool { all[id.(string)] = until.(blog.Date); return true })
	return all
}

// Any reports whether any user is hidden.
func (t *Tracker) Any() bool { return t.any.Load() }

// Hide hides a user that was deleted at a time, and what they wrote, from now on.
func (t *Tracker) Hide(userID string, deleted time.Time) {
	if t.add(userID, blog.NewDate(deleted.Add(blog.DeletionGrace))) {
		t.o.Hidden(userID)
	}
}

// Known reports whether this instance knows of all deletions up to Options.Lag ago, as far as Run
// follows them. If not, it wakes the tail, and the next read waits for it.
func (t *Tracker) Known() bool {
	tail := t.tail.Load()
	return t.starting.Load() == nil && (tail == nil || tail.CaughtUp(t.o.Lag))
}

// Await waits until this instance knows of all deletions up to Options.Lag ago: after Run begins,
// for the first list of jobs; after a pause without reads, for one poll. It does not wait while the tail
// fails, for example when throttled, and waits wait at most.
func (t *Tracker) Await(ctx context.Context) {
	if t.Known() || time.Now().UnixNano() < t.waiting.Load() {
		return
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if starting := t.starting.Load(); starting != nil {
		select {
		case <-*starting:
		case <-within.Done():
		}
	}
	if tail := t.tail.Load(); tail != nil && !tail.Failing() {
		_ = tail.CatchUp(within, t.o.Lag)
	}
	if within.Err() != nil && ctx.Err() == nil {
		t.waiting.Store(time.Now().Add(retry).UnixNano())
	}
}

// learn handles changes of the users container. It skips malformed items, which the
// projections report.
func (t *Tracker) learn(_ context.Context, items [][]byte) error {
	for _, raw := range items {
		var e blog.AnyItem
		if blog.Unmarshal(raw, &e, blog.Lenient) != nil || e.Type != blog.TypeUser || !e.Deleted {
			continue
		}
		if u, err := blog.DecodeUserOrTombstone("learn of deletions", raw); err == nil && u != nil &&
			u.DeletedAt != "" {
			t.Hide(u.UserID, u.DeletedAt.Time())
		}
	}
	return nil
}

// Run follows the changes of users until ctx ends, for the item cache and for deletions.
func (t *Tracker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	starting, started := context.WithCancel(ctx)
	done := starting.Done()
	t.starting.Store(&done)
	defer t.starting.Store(nil)
	tail := t.o.Tail(t.learn)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-tail.Ready():
		case <-ctx.Done():
			return
		}
		if t.o.WaitsForTail {
			t.tail.Store(tail)
			defer t.tail.Store(nil)
		}
		t.keep(ctx, func() {
			t.starting.Store(nil)
			started()
		})
	})
	err := tail.Run(ctx)
	cancel()
	wg.Wait()
	started()
	return err
}

// keep learns of the deletions that began before the tail, and forgets those that have ended, until
// ctx ends. It lists the jobs periodically, as projections that are behind enqueue jobs late. It calls listed
// after each list.
func (t *Tracker) keep(ctx context.Context, listed func()) {
	for pause := retry; ; pause = recheck { // usually a job follows its mutation within seconds
		err := t.list(ctx)
		if err == nil {
			listed()
		}
		if err := errors.Join(err, t.forget(ctx)); err != nil && ctx.Err() == nil {
			t.o.Logger.Warn("deletions of users not listed, retrying", "error", err)
			pause = retry
		}
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

// list hides the users that jobs are deleting.
func (t *Tracker) list(ctx context.Context) error {
	const op = "list deletions"
	var ids []string
	query := cosmos.Query{Text: "SELECT c.subject FROM c WHERE c.kind = 'deleteUser'", AllPartitions: true}
	for page, err := range t.o.Leases.Query(cosmos.WithPattern(ctx, Pattern), query) {
		if err != nil {
			return stored.Error(op, err)
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
	users, err := t.usersOrTombstones(ctx, op, ids)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u != nil && u.Deleted && u.DeletedAt != "" {
			t.Hide(u.UserID, u.DeletedAt.Time())
		}
	}
	return nil
}

// forget forgets the users whose deletion has ended: the user item is gone, or was created again.
func (t *Tracker) forget(ctx context.Context) error {
	ended := t.users()
	ids := slices.Collect(maps.Keys(ended))
	users, err := t.usersOrTombstones(ctx, "forget deletions", ids)
	if err != nil {
		return err
	}
	for i, u := range users {
		if u != nil && (u.Deleted || u.CreatedAt < ended[ids[i]]) {
			delete(ended, ids[i])
		}
	}
	t.remove(ended)
	return nil
}

// usersOrTombstones reads user items at low priority: nil for those that do not exist.
func (t *Tracker) usersOrTombstones(ctx context.Context, op string, ids []string) ([]*blog.UserItem, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return stored.ReadAll(cosmos.WithPattern(ctx, Pattern), op, t.o.Users, ids,
		func(id string) cosmos.Key { return stored.Key(id, id) },
		blog.DecodeUserOrTombstone, func(u *blog.UserItem) string { return u.UserID })
}
