package projection

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
	"byline/store/username"
)

// The access patterns of the projections.
const (
	ProjectPosts     cosmos.Pattern = "projectPosts"     // changes of posts: summaries, timelines, bylines
	ProjectUsers     cosmos.Pattern = "projectUsers"     // changes of users: jobs for their items, reservations
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
	logOld       = "old"
	logNew       = "new"
	logKind      = "kind"
	logPartition = "partition"
	logError     = "error"
	logUser      = "user"
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
	Clock          func() time.Time // dates items; the account's time
	Logger         *slog.Logger
}

// Views maintains the denormalized views. It is safe for concurrent use.
type Views struct {
	// TimelinesWait limits how long the writer of a post waits for its entries and their counts; 1 s. Tests raise it
	// before they use the Views.
	TimelinesWait time.Duration

	o       Options
	account *cosmos.Account
	metrics *metrics

	users, posts, feed, leases *cosmos.Container // of Account.Background
	requests                   struct{ users, posts, feed *cosmos.Container }

	summariesUpdated changefeed.Signal // set by UpdateViews: a post has changed, not only its counts

	reservations   *username.Names
	feedPartitions []string // partition keys of the feed
	jobs           *jobs.Runner

	ensured *ensuredPosts
	sums    *sums
	full    atomic.Bool // see Full
}

// New returns the views of a database. It does no I/O. Invalid if the number of feed
// partitions or the name of the database is.
func New(account *cosmos.Account, o Options) (*Views, error) {
	const op = "open views"
	if o.FeedPartitions < 0 || o.FeedPartitions > blog.MaxFeedPartitions {
		return nil, blog.Invalidf(op, "feedPartitions", blog.ReasonRange, "the feed can have 1 to %d partitions, not %d",
			blog.MaxFeedPartitions, o.FeedPartitions)
	}
	v := &Views{o: o, account: account, feedPartitions: blog.FeedPartitionKeys(o.FeedPartitions),
		ensured: newEnsuredPosts(), TimelinesWait: timelinesWait}
	v.sums = newSums(v)
	account.Patterns(patterns...)
	var err error
	if v.metrics, err = newMetrics(account.Registerer()); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: op, Err: err}
	}
	background := account.Background()
	for _, c := range []struct {
		account *cosmos.Account
		name    string
		to      **cosmos.Container
	}{
		{background, blog.UsersContainer, &v.users}, {background, blog.PostsContainer, &v.posts},
		{background, blog.FeedContainer, &v.feed}, {background, blog.LeasesContainer, &v.leases},
		{account, blog.UsersContainer, &v.requests.users}, {account, blog.PostsContainer, &v.requests.posts},
		{account, blog.FeedContainer, &v.requests.feed},
	} {
		if *c.to, err = c.account.Container(o.Database, c.name); err != nil {
			return nil, &blog.Error{Code: blog.Invalid, Op: op, Field: "database", Message: err.Error(), Err: err}
		}
	}
	v.reservations = &username.Names{Users: v.users, Clock: o.Clock, Logger: o.Logger}
	v.jobs, err = jobs.New(v.leases,
		jobs.Options{Owner: o.Instance, Kinds: v.jobWork(), RU: float64(o.BackgroundRU), Pattern: Jobs, Clock: o.Clock,
			Logger: o.Logger, Metrics: account.Registerer(),
			Skipped: func(item []byte, err error) { v.skip(blog.LeasesContainer, item, err) }})
	if err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: op, Err: err}
	}
	return v, nil
}

// Run applies the changes of posts and users to the views, from the last checkpoint on, executes jobs, and
// releases abandoned usernames. Any number of processes may run it: they divide the feed ranges by leases. It
// returns nil when ctx ends.
//
// Every write of a view is conditional and idempotent: a change that is handled twice, late, or by two
// processes never makes a view older.
func (v *Views) Run(ctx context.Context) error {
	all, running := v.processors(), map[string]*changefeed.Processor{}
	for _, p := range all {
		o := p.options
		o.Owner, o.IdleInterval, o.Expiry = v.o.Instance, IdleInterval(o.PollInterval),
			max(leaseExpiry, leasePolls*o.PollInterval)
		o.MaxItems, o.Logger, o.Observe = pageSize, v.o.Logger, v.observer(o.Name)
		processor, err := changefeed.New(p.source.ChangeFeed(), v.leases.ChangeFeed(), p.handle, o)
		if err != nil {
			return &blog.Error{Code: blog.Internal, Op: "run projections", Err: err}
		}
		running[o.Name] = processor
	}
	v.readFull(cosmos.WithPattern(ctx, ProjectPosts))
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range all {
		g.Go(func() error { return running[p.options.Name].Run(cosmos.WithPattern(ctx, p.pattern)) })
	}
	g.Go(func() error { return v.jobs.Run(ctx) })
	v.metrics.running.Store(&running)
	defer v.metrics.running.CompareAndSwap(&running, nil)
	return stored.Error("run projections", g.Wait())
}

// Observer returns a function that counts the progress of a reader of the change feed in
// byline_projection_changes_total and byline_projection_failures_total.
func (v *Views) Observer(name string) func(changefeed.Progress) { return v.metrics.observer(name) }

// rangeAway is longer than the time between two pages of a range that this instance owns.
const rangeAway = 30 * time.Second

// observer is Observer, and also lists the jobs when this instance acquires a range: the former owner of the
// range may have left jobs.
func (v *Views) observer(name string) func(changefeed.Progress) {
	observe := v.Observer(name)
	var last sync.Map // time of the last page, by range
	return func(p changefeed.Progress) {
		observe(p)
		now := time.Now()
		if before, ok := last.Swap(p.Range, now); !ok || now.Sub(before.(time.Time)) > rangeAway {
			v.jobs.Refresh()
		}
	}
}

func (v *Views) now() blog.Date { return blog.NewDate(v.o.Clock()) }

// processor describes a change feed processor: its handler of one container's changes.
type processor struct {
	pattern cosmos.Pattern
	source  *cosmos.Container
	handle  changefeed.Handler
	options changefeed.Options // completed by Run
}

// projectionsPosts is the name of the processor of changes of posts.
const projectionsPosts = "projections-posts"

func (v *Views) projections() []processor {
	return []processor{
		{ProjectPosts, v.posts, v.projectPosts,
			changefeed.Options{Name: projectionsPosts, PollInterval: v.o.PollInterval, Wake: v.posts.Writes(),
				Settle: countInterval(v.o.PollInterval), Hurry: &v.summariesUpdated}},
		{ProjectUsers, v.users, v.projectUsers,
			changefeed.Options{Name: "projections-users", PollInterval: v.o.PollInterval, Wake: v.users.Writes()}},
	}
}

func (v *Views) processors() []processor {
	return append(v.projections(), processor{ProjectUsernames, v.users, v.sweepUsernames,
		changefeed.Options{Name: "usernames", PollInterval: sweepPolls * v.o.PollInterval}})
}

// IdleInterval returns the longest interval between polls of an idle change feed, given the shortest: 20
// times as long, at most 2 s.
func IdleInterval(poll time.Duration) time.Duration { return max(poll, min(20*poll, 2*time.Second)) }

// countInterval returns how long likes and comments are collected before the summaries count them, given the
// shortest interval between polls: 5 times as long, at most 1 s. A post then has at most two writes of its
// summaries a second, and the summaries of an author share one request.
func countInterval(poll time.Duration) time.Duration { return max(poll, min(5*poll, time.Second)) }

// When a process is killed, its feed ranges are idle until its leases expire, which others
// notice within 3/2 of that time. A lease costs two writes per expiry, so the expiry is
// longer where polling is slower.
const (
	leaseExpiry = 3 * time.Second
	leasePolls  = 15
)

// pageSize is the largest number of changes in a page of the change feed. Changes of one post in a page
// are coalesced.
const pageSize = 4000

// sweepPolls is how many poll intervals the sweep of usernames waits between polls: it acts
// only on reservations older than username.Grace.
const sweepPolls = 10

// Status is the progress of a processor in one feed range of a container.
type Status struct {
	Processor string // "projections-posts", "projections-users", or "usernames" (the sweep)
	Container string
	changefeed.RangeStatus
}

// Status returns the progress and the owner of every feed range, of the projections and of the
// sweep of usernames. It takes no lease. It returns nothing before the first Run.
func (v *Views) Status(ctx context.Context) ([]Status, error) {
	ctx = v.account.Begin(ctx, Verify)
	var all []Status
	for _, p := range v.processors() {
		ranges, err := changefeed.Status(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.options.Name)
		if err != nil {
			return nil, stored.Error("read status of projections", err)
		}
		for _, r := range ranges {
			all = append(all, Status{p.options.Name, p.source.Name(), r})
		}
	}
	return all, nil
}
