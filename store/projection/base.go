package projection

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/files"
	"byline/store/internal/metric"
	"byline/store/jobs"
	"byline/store/stored"
)

// The access patterns of the projections.
const (
	ProjectPosts     cosmos.Pattern = "projectPosts"     // changes of posts: summaries, timelines, bylines
	ProjectUsers     cosmos.Pattern = "projectUsers"     // changes of users: jobs, reservations, follows
	ProjectUsernames cosmos.Pattern = "projectUsernames" // abandoned reservations of usernames
	Jobs             cosmos.Pattern = "jobs"             // renames, deletions of users and of posts' items
	Verify           cosmos.Pattern = "verify"           // and the status of the projections
	Repair           cosmos.Pattern = "repair"           // and rebuild
)

// patterns are the access patterns of the projections.
var patterns = []cosmos.Pattern{ProjectPosts, ProjectUsers, ProjectUsernames, Jobs, Verify, Repair}

// Names of log attributes.
const (
	logContainer = "container"
	logItem      = "item"
	logKind      = "kind"
	logPartition = "partition"
	logError     = "error"
	logPost      = "post"
	logCount     = "count"
	logWritten   = "written"
)

// Options of Views. FeedPartitions and BackgroundRU excepted, they have no defaults: see store.Options.
type Options struct {
	Database       string           // the Cosmos DB database
	Instance       string           // owner of change feed leases
	PollInterval   time.Duration    // of the change feeds; see changefeed.Options
	FeedPartitions int              // 0: one, and Conflict if the feed has several
	BackgroundRU   int              // RU per second of jobs; 0: unlimited
	Files          *files.Files     // nil: none
	Clock          func() time.Time // dates items; the account's time
	Logger         *slog.Logger
}

// base is what all views share: the account, its containers, and the jobs. It refers to no view.
type base struct {
	o       Options
	account *cosmos.Account
	metrics *metrics

	users, posts, feed, leases, search *cosmos.Container // of Account.Background
	requests                           struct{ users, posts, feed, search *cosmos.Container }

	feedKeys []string     // partition keys of the feed
	jobs     *jobs.Runner // set by New, as the views do the work
}

// newBase returns a base without jobs. It does no I/O.
func newBase(account *cosmos.Account, o Options) (*base, error) {
	const op = "open views"
	if o.FeedPartitions < 0 || o.FeedPartitions > blog.MaxFeedPartitions {
		return nil, blog.Invalidf(op, "feedPartitions", blog.ReasonRange,
			"the feed can have 1 to %d partitions, not %d", blog.MaxFeedPartitions, o.FeedPartitions)
	}
	b := &base{o: o, account: account, feedKeys: blog.FeedPartitionKeys(o.FeedPartitions)}
	account.Patterns(patterns...)
	var err error
	if b.metrics, err = newMetrics(account.Registerer()); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: op, Err: err}
	}
	background := account.Background()
	for _, c := range []struct {
		account *cosmos.Account
		name    string
		to      **cosmos.Container
	}{
		{background, blog.UsersContainer, &b.users}, {background, blog.PostsContainer, &b.posts},
		{background, blog.FeedContainer, &b.feed}, {background, blog.LeasesContainer, &b.leases},
		{background, blog.SearchContainer, &b.search},
		{account, blog.UsersContainer, &b.requests.users}, {account, blog.PostsContainer, &b.requests.posts},
		{account, blog.FeedContainer, &b.requests.feed}, {account, blog.SearchContainer, &b.requests.search},
	} {
		if *c.to, err = c.account.Container(o.Database, c.name); err != nil {
			return nil, &blog.Error{Code: blog.Invalid, Op: op, Field: "database", Message: err.Error(), Err: err}
		}
	}
	return b, nil
}

// now returns the date of what is written now.
func (b *base) now() blog.Date { return blog.NewDate(b.o.Clock()) }

// workers is the largest number of requests that a projection has in flight.
const workers = 8

// The kinds of jobs: work that may take too long for the handler of a page.
const (
	renameJob     = "rename"     // sets the byline of a user on their posts, comments and likes
	deletePostJob = "deletePost" // deletes the comments, likes and text of a deleted post
	deleteUserJob = "deleteUser" // deletes all items of a deleted user, and the user
	sweepFilesJob = "sweepFiles" // deletes uploads and files that nothing uses
)

// enqueue enqueues jobs of a kind, given the revision of each subject that needs one. They are written before
// the checkpoint of the change, so that a crash cannot lose them.
func (b *base) enqueue(ctx context.Context, kind string, subjects map[string]int64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for subject, revision := range subjects {
		g.Go(func() error { return b.jobs.Enqueue(ctx, kind, subject, revision) })
	}
	return stored.Error("enqueue job", g.Wait())
}

// Kind is a kind of difference.
type Kind string

// The kinds of differences.
const (
	Summary   Kind = "summary" // of a post, in the author's partition
	FeedEntry Kind = "feed entry"
	Count     Kind = "count"    // of comments or likes, on a post; or comments and likes of a deleted post
	Text      Kind = "text"     // stored in the wrong item for its length, lost, or without a post
	Byline    Kind = "byline"   // of the author, on a post, comment or like
	Username  Kind = "username" // a user without the reservation, or a reservation without the user
	Deletion  Kind = "deletion" // a deleted user without the deletion job

	Follower    Kind = "follower"     // the byline of a follower, or a follow without its users
	Following   Kind = "following"    // a follow in the partition of the follower
	Liked       Kind = "liked post"   // a like in the partition of its user
	FollowCount Kind = "follow count" // of followers, or of followed authors, on a user

	TimelineEntry Kind = "timeline entry" // of a post, in a month of a timeline
	Timeline      Kind = "timelines"      // the counters of a timeline, or their copies and sum in its item
	SearchItem    Kind = "search item"    // of a post, in the partition of its decade
)

// Difference is a view, a count or a reservation that does not match its source.
type Difference struct {
	Kind      Kind   `json:"kind"`
	Partition string `json:"partition"` // the value of the partition key
	ID        string `json:"id"`        // of the wrong or missing item
	Have      string `json:"have"`
	Want      string `json:"want"`

	revision int64 // of the source of a summary, at the first comparison
}

// addressable reports whether the item can be read by id and partition key.
func (d *Difference) addressable() bool {
	return blog.Addressable(d.Partition) && (d.Kind == Username || blog.Addressable(d.ID)) // a name's ID is its owner
}

// metrics are the metrics of Run, shared by all Views with one registry.
type metrics struct {
	changes, failures *prometheus.CounterVec
	skipped           prometheus.Counter
	running           atomic.Pointer[map[string]*changefeed.Processor] // by name; nil while no Views run
}

// newMetrics returns the metrics of a registry, and registers them if there are none.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_changes_total",
			Help: "Changes of the change feed that were handled, repetitions included."}, projectionLabels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_failures_total",
			Help: "Pages of the change feed that could not be read or handled, and are retried."}, projectionLabels),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_projection_skipped_total",
			Help: "Items that were skipped because they are malformed, Cosmos DB refuses to write them, or they " +
				"cannot be deleted."}),
	}
	return metric.Register(r, m)
}

// observer counts the progress of a projection.
func (m *metrics) observer(projection string) func(changefeed.Progress) {
	changes, failures := m.changes.WithLabelValues(projection), m.failures.WithLabelValues(projection)
	return func(p changefeed.Progress) {
		changes.Add(float64(p.Items))
		if p.Err != nil {
			failures.Inc()
		}
	}
}

var projectionLabels = []string{"projection"}

var (
	leasesHeld = prometheus.NewDesc("byline_projection_leases", "Change feed ranges whose lease this instance owns.",
		projectionLabels, nil)
	projectionLag = prometheus.NewDesc("byline_projection_lag_transactions",
		"Transactions that the projections of this instance are behind, in the ranges it owns, as of the last page "+
			"of each.",
		projectionLabels, nil)
	projectionStall = prometheus.NewDesc("byline_projection_stalled_seconds",
		"How long ago a page of the change feed was last handled, of the range this instance owns for which it is "+
			"longest.",
		projectionLabels, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.changes.Describe(to)
	m.failures.Describe(to)
	m.skipped.Describe(to)
	to <- leasesHeld
	to <- projectionLag
	to <- projectionStall
}

// Collect implements prometheus.Collector. The gauges exist while Run runs.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.changes.Collect(to)
	m.failures.Collect(to)
	m.skipped.Collect(to)
	r := m.running.Load()
	if r == nil {
		return
	}
	for name, p := range *r {
		leases, lag := p.Held()
		to <- prometheus.MustNewConstMetric(leasesHeld, prometheus.GaugeValue, float64(leases), name)
		to <- prometheus.MustNewConstMetric(projectionLag, prometheus.GaugeValue, float64(lag), name)
		to <- prometheus.MustNewConstMetric(projectionStall, prometheus.GaugeValue, p.Stalled().Seconds(), name)
	}
}
