package store

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"byline/store/changefeed"
	"byline/store/cosmos"
)

// Options of a Store. The zero value works.
type Options struct {
	// Database is the name of the Cosmos DB database. Default "blog".
	Database string

	// Instance names this process as an owner of change feed leases. A process
	// that starts under the name of one that died goes on with its leases at
	// once; two that live at the same time must differ. Default: a random name.
	Instance string

	// PollInterval is how long the projections wait when the change feed has
	// nothing new. Default 100 ms.
	PollInterval time.Duration

	// FeedPartitions is over how many partitions the feed is spread, each of which
	// holds all of it: at most MaxFeedPartitions. All that share a database have the
	// same number. Default: 1, and a feed that has been spread is refused.
	FeedPartitions int

	// Clock gives the time that items are dated with. Default time.Now.
	Clock func() time.Time

	// Logger receives what the projections have to say. Default: nowhere.
	Logger *slog.Logger
}

// Store is the blog on its V3 containers. It is safe for concurrent use.
type Store struct {
	o       Options
	account *cosmos.Account
	metrics *metrics
	leases  *cosmos.Container

	containers            // of the request path
	background containers // of the projections
	events     *events

	feedPartitions []string // the values of the feed's partition key
}

// containers are the blog's.
type containers struct {
	users, posts, feed *cosmos.Container
}

// New returns a Store on an account. Its projections use the account's background access.
// It does no I/O, and does not close the account.
func New(account *cosmos.Account, o Options) (*Store, error) {
	if o.Database == "" {
		o.Database = "blog"
	}
	if o.Instance == "" {
		o.Instance = newID()
	}
	if o.PollInterval == 0 {
		o.PollInterval = 100 * time.Millisecond
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FeedPartitions < 0 || o.FeedPartitions > MaxFeedPartitions {
		return nil, invalid("open store", "feedPartitions", "the feed can have 1 to %d partitions, not %d", MaxFeedPartitions, o.FeedPartitions)
	}
	s := &Store{o: o, account: account, feedPartitions: FeedPartitionKeys(o.FeedPartitions)}
	account.Patterns(patterns...)
	var err error
	if s.metrics, err = newMetrics(account.Registerer()); err != nil {
		return nil, &Error{Code: Internal, Op: "open store", Err: err}
	}
	if s.events, err = newEvents(o.Clock()); err != nil {
		return nil, &Error{Code: Internal, Op: "open store", Err: err}
	}
	background := account.Background()
	for _, c := range []struct {
		account *cosmos.Account
		name    string
		to      **cosmos.Container
	}{
		{account, usersContainer, &s.users}, {account, postsContainer, &s.posts}, {account, feedContainer, &s.feed},
		{background, usersContainer, &s.background.users}, {background, postsContainer, &s.background.posts}, {background, feedContainer, &s.background.feed},
		{background, leasesContainer, &s.leases},
	} {
		if *c.to, err = c.account.Container(o.Database, c.name); err != nil {
			return nil, &Error{Code: Invalid, Op: "open store", Field: "database", Message: err.Error(), Err: err}
		}
	}
	return s, nil
}

// tail follows the changes of a container, and hands them to handle, if that is set.
// partition is the property that names an item's partition.
func (s *Store) tail(name string, source *cosmos.Container, partition string, handle changefeed.Handler) *cosmos.Tail {
	return source.Tail(partition, handle, changefeed.Options{PollInterval: s.o.PollInterval, Logger: s.o.Logger, Observe: s.metrics.observer(name)})
}

// Ready reports whether Cosmos DB answers: nil, or an Error. It costs about 1 RU.
func (s *Store) Ready(ctx context.Context) error {
	ctx = s.account.Begin(ctx, Readiness)
	_, err := s.posts.Read(ctx, key("ready", "ready"))
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
		return cosmosError("check readiness", err)
	}
	if err != nil && cosmos.ErrorOf(err).NoContainer() {
		return &Error{Code: Unavailable, Op: "check readiness", Message: "the containers do not exist", Err: err}
	}
	return nil
}

// FeedPartitions is over how many partitions the feed is spread, at least 1.
func (s *Store) FeedPartitions() int { return len(s.feedPartitions) }

func (s *Store) now() Date { return NewDate(s.o.Clock()) }
