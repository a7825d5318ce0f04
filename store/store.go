package store

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"
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

	// Cache remembers what was read, while Run runs. It must be a policy of both
	// clients, and of no other Store's. Default: everything is read anew.
	Cache *Cache

	// Logger receives what the projections have to say. Default: nowhere.
	Logger *slog.Logger

	// Meter, which should be attached to the clients, counts what is asked for and
	// what the projections do. Default: one that nobody reads.
	Meter *Meter
}

// Store is the blog on its V3 containers. It is safe for concurrent use.
type Store struct {
	o        Options
	client   *azcosmos.Client
	database *azcosmos.DatabaseClient
	leases   *azcosmos.ContainerClient

	clients            // of the request path
	background clients // of the projections
	events     *events

	feedPartitions []string // the values of the feed's partition key
	realm          uint32   // of the sessions' tokens
}

// clients are the blog's containers.
type clients struct {
	users, posts, feed *azcosmos.ContainerClient
}

// New returns a Store that serves requests through client and keeps the copies
// true through background, so that the two can differ in priority, retries and
// accounting; one client may serve both. Each has the policy Bodies. It does no I/O, and
// closes neither.
func New(client, background *azcosmos.Client, o Options) (*Store, error) {
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
	if o.Meter == nil {
		o.Meter = NewMeter(prometheus.NewRegistry())
	}
	if o.FeedPartitions < 0 || o.FeedPartitions > MaxFeedPartitions {
		return nil, invalid("open store", "feedPartitions", "the feed can have 1 to %d partitions, not %d", MaxFeedPartitions, o.FeedPartitions)
	}
	if o.Cache != nil {
		o.Cache.poll, o.Cache.meter = o.PollInterval, o.Meter
	}
	s := &Store{o: o, client: client, realm: sessionRealm(client.Endpoint(), o.Database), feedPartitions: FeedPartitionKeys(o.FeedPartitions)}
	var err error
	if s.events, err = newEvents(o.Clock()); err != nil {
		return nil, &Error{Code: Internal, Op: "open store", Err: err}
	}
	if s.database, err = client.NewDatabase(o.Database); err != nil {
		return nil, &Error{Code: Invalid, Op: "open store", Field: "database", Message: err.Error(), Err: err}
	}
	for _, c := range []struct {
		client *azcosmos.Client
		name   string
		to     **azcosmos.ContainerClient
	}{
		{client, usersContainer, &s.users}, {client, postsContainer, &s.posts}, {client, feedContainer, &s.feed},
		{background, usersContainer, &s.background.users}, {background, postsContainer, &s.background.posts}, {background, feedContainer, &s.background.feed},
		{background, leasesContainer, &s.leases},
	} {
		if *c.to, err = c.client.NewContainer(o.Database, c.name); err != nil {
			return nil, &Error{Code: Internal, Op: "open store", Err: err}
		}
	}
	return s, nil
}

// Ready reports whether Cosmos DB answers: nil, or an Error. It costs about 1 RU.
func (s *Store) Ready(ctx context.Context) error {
	ctx = s.begin(ctx, Readiness)
	_, err := s.posts.ReadItem(ctx, key("ready"), "ready", nil)
	if err != nil && !hasStatus(err, http.StatusNotFound) {
		return cosmosError("check readiness", err)
	}
	if substatus(err) == ownerMissing {
		return &Error{Code: Unavailable, Op: "check readiness", Message: "the containers do not exist", Err: err}
	}
	return nil
}

// FeedPartitions is over how many partitions the feed is spread, at least 1.
func (s *Store) FeedPartitions() int { return len(s.feedPartitions) }

func (s *Store) now() Date { return NewDate(s.o.Clock()) }

// key is the partition key of a single text.
func key(s string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(s) }

// withContent asks a write to return the item as it is afterwards.
var withContent = &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
