package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/deletion"
	"byline/store/live"
	"byline/store/projection"
	"byline/store/stored"
	"byline/store/username"
)

// Names of log attributes.
const (
	logUser  = "user"
	logError = "error"
)

// Options of a Store. The zero value works.
type Options struct {
	// Database is the name of the Cosmos DB database. Default "blog".
	Database string

	// Instance is the owner of this process's change feed leases. A process with the name of
	// one that died takes over its leases at once; running processes need different names.
	// Default: a random name.
	Instance string

	// PollInterval is the shortest interval between polls of a change feed. While nothing
	// changes, it grows up to projection.IdleInterval. Default 100 ms.
	PollInterval time.Duration

	// FeedPartitions is the number of partitions that each hold the whole feed, at most
	// blog.MaxFeedPartitions. All processes of a database need the same number. Default: 1,
	// and a feed with several partitions is a Conflict.
	FeedPartitions int

	// BackgroundRU is how many request units per second the jobs of this process may spend: renames, deletes
	// of the comments and likes of posts, and deletions of users. Default: 0, no limit.
	BackgroundRU int

	// RenameCooldown is the period in which a user can change their username three times. Default 24 hours.
	RenameCooldown time.Duration

	// ReservedUsernames are usernames that no user can take, besides those of package username. Users keep the
	// names that they have.
	ReservedUsernames []string

	// Clock dates items, corrected by the account's time. Default time.Now.
	Clock func() time.Time

	// Logger is the logger of the projections. Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Database == "" {
		o.Database = "blog"
	}
	if o.Instance == "" {
		o.Instance = newID()
	}
	if o.PollInterval == 0 {
		o.PollInterval = 100 * time.Millisecond
	}
	if o.RenameCooldown == 0 {
		o.RenameCooldown = 24 * time.Hour
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store is the blog on its V3 containers. It is safe for concurrent use.
type Store struct {
	o       Options
	account *cosmos.Account
	events  *live.Events
	views   *projection.Views

	authors   authors
	comments  *authorComments
	counts    *knownCounts
	deletions *deletion.Tracker

	users, posts, feed *cosmos.Container
	names              *username.Names
	reserved           username.Reserved
	sessionContainers  []*cosmos.Container // covered by sessions, whose tokens depend on the order
	feedPartitions     []string            // partition keys of the feed

	// background is for reads at low priority, which wait while Cosmos DB throttles them.
	background struct{ users, posts, feed, leases *cosmos.Container }
}

// Instance returns the owner of this process's change feed leases and jobs.
func (s *Store) Instance() string { return s.o.Instance }

// New returns a Store on an account. It does no I/O, and does not close the account.
func New(account *cosmos.Account, o Options) (*Store, error) {
	o = o.withDefaults()
	o.Clock = account.Correct(o.Clock)
	s := &Store{o: o, account: account, authors: newAuthors(), comments: newAuthorComments(), counts: newKnownCounts(),
		reserved: username.NewReserved(o.ReservedUsernames)}
	account.Patterns(patterns...)
	var err error
	s.views, err = projection.New(account,
		projection.Options{Database: o.Database, Instance: o.Instance, PollInterval: o.PollInterval,
			FeedPartitions: o.FeedPartitions, BackgroundRU: o.BackgroundRU, Clock: o.Clock, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	s.feedPartitions = blog.FeedPartitionKeys(o.FeedPartitions)
	background := account.Background()
	for _, c := range []struct {
		account *cosmos.Account
		name    string
		to      **cosmos.Container
	}{
		{account, blog.UsersContainer, &s.users}, {account, blog.PostsContainer, &s.posts},
		{account, blog.FeedContainer, &s.feed},
		{background, blog.UsersContainer, &s.background.users}, {background, blog.PostsContainer, &s.background.posts},
		{background, blog.FeedContainer, &s.background.feed}, {background, blog.LeasesContainer, &s.background.leases},
	} {
		if *c.to, err = c.account.Container(o.Database, c.name); err != nil {
			return nil, &blog.Error{Code: blog.Invalid, Op: "open store", Field: "database", Reason: blog.ReasonFormat,
				Message: err.Error(), Err: err}
		}
	}
	s.sessionContainers = []*cosmos.Container{s.users, s.posts, s.feed}
	s.names = &username.Names{Users: s.users, Clock: o.Clock, Logger: o.Logger}
	s.deletions = s.newDeletions()
	if s.events, err = s.newEvents(); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "open store", Err: err}
	}
	return s, nil
}

// Views returns the denormalized views: their state, verify, repair and rebuild.
func (s *Store) Views() *projection.Views { return s.views }

// Run maintains the views, and serves the streams and caches, until ctx ends. See
// projection.Views.Run. It returns nil when ctx ends.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.views.Run(ctx) })
	g.Go(func() error { return s.events.Run(ctx) })
	g.Go(func() error { return s.deletions.Run(ctx) })
	if s.feed.Caches() { // at request priority: without the tail every read is a request
		g.Go(func() error { return s.tail("cache-feed", s.feed, "type", s.seeTimeline, wokenByReads, nil).Run(ctx) })
	}
	return stored.Error("run store", g.Wait())
}

// tail returns a tail of a container's changes, which calls handle and observe unless they are nil.
// partition is the property of the partition key.
func (s *Store) tail(
	name string, source *cosmos.Container, partition string, handle changefeed.Handler, unwatched func() bool,
	observe func(changefeed.Progress),
) *itemcache.Tail {
	count := s.views.Observer(name)
	return source.Tail(partition, handle, changefeed.Options{
		PollInterval: s.o.PollInterval, IdleInterval: projection.IdleInterval(s.o.PollInterval), Logger: s.o.Logger,
		Unwatched: unwatched,
		Observe: func(p changefeed.Progress) {
			count(p)
			if observe != nil {
				observe(p)
			}
		}})
}

// wokenByReads is for tails that reads wake: nobody else waits for the changes.
func wokenByReads() bool { return true }

// Ready returns nil if Cosmos DB can serve. It costs about 1 RU. It does not retry while throttled, but
// returns Throttled.
func (s *Store) Ready(ctx context.Context) error {
	ctx = s.account.Begin(cosmos.WithoutRetries(ctx), Readiness)
	_, err := s.posts.Read(ctx, stored.Key("ready", "ready"))
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
		return stored.Error("check readiness", err)
	}
	if err != nil && cosmos.ErrorOf(err).NoContainer() {
		return &blog.Error{Code: blog.Unavailable, Op: "check readiness", Message: "the containers do not exist",
			Err: err}
	}
	return nil
}

// FeedPartitions returns the number of partitions of the feed.
func (s *Store) FeedPartitions() int { return len(s.feedPartitions) }

func (s *Store) now() blog.Date { return blog.NewDate(s.o.Clock()) }

// cached is cosmos.Get.
func cached[T any](
	ctx context.Context, c *cosmos.Container, partition, what string, read func(context.Context) (T, error),
) (T, error) {
	v, err := cosmos.Get(ctx, c, partition, what, read)
	return v, stored.Error("read", err)
}

// countItems returns the result of a query SELECT VALUE COUNT(1).
func countItems(ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) (n int, err error) {
	for page, err := range c.Query(ctx, q) {
		if err != nil {
			return 0, stored.Error(op, err)
		}
		for _, raw := range page {
			part := 0
			if err := json.Unmarshal(raw, &part); err != nil {
				return 0, blog.Malformed(op, "count", err)
			}
			n += part
		}
	}
	return n, nil
}

// cachedMany is cosmos.GetMany.
func cachedMany[T any](
	ctx context.Context, c *cosmos.Container, partitions []string, what string,
	read func(_ context.Context, partitions []string) ([]T, error),
) ([]T, error) {
	all, err := cosmos.GetMany(ctx, c, partitions, what, read)
	return all, stored.Error("read", err)
}
