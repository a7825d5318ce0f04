package store

import (
	"context"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/deletion"
	"byline/store/live"
	"byline/store/projection"
	"byline/store/recency"
	"byline/store/search"
	"byline/store/stored"
	"byline/store/username"
)

// Store is the blog on its V3 containers. Its operations are those of the types that it embeds, each in the file of
// what it reads or writes, and those of the process as a whole. It is safe for concurrent use.
type Store struct {
	*base
	sessions
	userStore
	postStore
	commentStore
	likeStore
	followStore
	savedStore
	timelineStore
	homeStore
	searchStore
	fileStore
	exporter
	importer

	events *live.Events
}

// New returns a Store on an account. It does no I/O, and does not close the account.
func New(account *cosmos.Account, o Options) (*Store, error) {
	b, err := newBase(account, o)
	if err != nil {
		return nil, err
	}
	shown := &shownCounts{b, newKnownCounts()}
	counted := &countedWrites{b, shown}
	names := &username.Names{Users: b.users, Clock: b.o.Clock, Logger: b.o.Logger}
	follows := &shownFollows{b, recency.NewFollows(b.o.Clock)}
	s := &Store{base: b,
		sessions: sessions{b, shown, follows, account, []*cosmos.Container{b.users, b.posts, b.feed, b.search}}}
	authors := newAuthors(b, &s.sessions)
	s.userStore = userStore{b, authors, &s.sessions, names, username.NewReserved(o.ReservedUsernames)}
	s.postStore = postStore{b, authors, shown}
	s.commentStore = commentStore{b, authors, counted, newAuthorComments()}
	s.likeStore = likeStore{b, authors, counted, shown}
	s.savedStore = newSavedStore(b, authors)
	s.homeStore = homeStore{base: b, follows: follows, usersTail: new(atomic.Pointer[itemcache.Tail])}
	s.followStore = followStore{b, authors, &s.userStore, follows}
	s.timelineStore = timelineStore{b, shown, blog.FeedPartitionKeys(o.FeedPartitions)}
	s.searchStore = searchStore{base: b, searcher: search.New(b.search, b.o.Clock, b.o.Logger)}
	s.fileStore = fileStore{b, authors}
	s.exporter = exporter{b}
	s.importer = importer{b, names}
	b.deletions = s.newDeletions(authors)
	if s.events, err = s.newEvents(); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "open store", Err: err}
	}
	s.homeStore.events = s.events
	return s, nil
}

// Instance returns the owner of this process's change feed leases and jobs.
func (s *Store) Instance() string { return s.o.Instance }

// newDeletions returns the tracker of the users being deleted, whose posts, comments and likes are hidden.
func (s *Store) newDeletions(authors *authors) *deletion.Tracker {
	return deletion.New(deletion.Options{
		Tail: func(h changefeed.Handler) *itemcache.Tail {
			follows := s.sessions.follows
			tail := s.tail("cache-users", s.users, "userId", authors.dropChanged(follows.followViews(h)),
				func() bool { return !follows.known.HasWatchers() }, nil)
			s.usersTail.Store(tail)
			return tail
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

// DeletionsKnown is deletion.Tracker.Known.
func (s *Store) DeletionsKnown() bool { return s.deletions.Known() }

func (s *Store) newEvents() (*live.Events, error) {
	return live.New(live.Options{
		Tail: func(h changefeed.Handler, unwatched func() bool, observe func(changefeed.Progress)) *itemcache.Tail {
			return s.tail("events", s.posts, "postId", h, unwatched, observe)
		},
		KeepsTail: s.posts.Caches(), Deletions: s.deletions, OnPostChange: s.indexChange,
		Watchers: s.sessions.follows.known.Watchers,
		ReadPost: func(ctx context.Context, id string) (*blog.Post, error) {
			return s.readPost(s.beginRead(ctx, Subscribe), id)
		},
		PollInterval: s.o.PollInterval, RetryBudget: s.account.RetryBudget(), Clock: s.o.Clock,
		Metrics: s.account.Registerer()})
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
	g.Go(func() error { return s.runFeedTail(ctx) }) // at request priority: without the tail every read is a request
	return stored.Error("run store", g.Wait())
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

// PublishedPosts is live.Events.PublishedPosts.
func (s *Store) PublishedPosts(ctx context.Context) (*live.Stream[*blog.Post], error) {
	return s.events.PublishedPosts(ctx)
}

// PostChanges is live.Events.PostChanges.
func (s *Store) PostChanges(ctx context.Context, postID string) (*live.Stream[*blog.Post], error) {
	return s.events.PostChanges(ctx, postID)
}

// PostDeletions is live.Events.PostDeletions.
func (s *Store) PostDeletions(ctx context.Context, postID string) (*live.Stream[*live.PostDeletion], error) {
	return s.events.PostDeletions(ctx, postID)
}

// CommentChanges is live.Events.CommentChanges.
func (s *Store) CommentChanges(ctx context.Context, postID string) (*live.Stream[*live.CommentChange], error) {
	return s.events.CommentChanges(ctx, postID)
}

// NewComments is live.Events.NewComments.
func (s *Store) NewComments(ctx context.Context, postID string) (*live.Stream[*blog.Comment], error) {
	return s.events.NewComments(ctx, postID)
}
