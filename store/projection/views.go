package projection

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
	"byline/store/username"
)

// Views maintains the denormalized views. It is safe for concurrent use.
type Views struct {
	*base

	// TimelinesWait limits how long the writer of a post waits for its entries and their counts; 1 s. Tests raise it
	// before they use the Views.
	TimelinesWait time.Duration

	summariesUpdated changefeed.Signal // set by UpdateViews: a post has changed, not only its counts

	registry   *registry
	bylines    *bylines
	sums       *sums
	timelines  *timelines
	summaries  *summaries
	partitions *feedPartitions
	feedEnd    *feedEnd
	feed       *feed
	usernames  *usernames
}

// New returns the views of a database. It does no I/O. Invalid if the number of feed
// partitions or the name of the database is.
func New(account *cosmos.Account, o Options) (*Views, error) {
	b, err := newBase(account, o)
	if err != nil {
		return nil, err
	}
	v := &Views{base: b, TimelinesWait: timelinesWait, registry: &registry{base: b}, bylines: &bylines{b},
		sums: newSums(b)}
	items := &timelineItems{b, v.sums}
	v.timelines = newTimelines(b, v.sums, items)
	v.summaries = &summaries{b}
	v.partitions = &feedPartitions{b, v.registry}
	v.feedEnd = &feedEnd{base: b, summaries: v.summaries, partitions: v.partitions}
	v.feed = &feed{b, v.summaries, v.partitions, v.feedEnd}
	v.usernames = &usernames{b, &username.Names{Users: b.users, Clock: o.Clock, Logger: o.Logger}, v.registry}
	// The timelines before the feed, whose oldest entries are deleted.
	v.registry.views = []view{v.bylines, v.timelines, items, v.summaries, v.feed, &counts{b}, &texts{b}, v.usernames,
		&userDeletions{b}, &tombstones{b}}
	b.jobs, err = jobs.New(b.leases,
		jobs.Options{Owner: o.Instance, Kinds: v.jobWork(), RU: float64(o.BackgroundRU), Pattern: Jobs, Clock: o.Clock,
			Logger: o.Logger, Metrics: account.Registerer(),
			Skipped: func(item []byte, err error) { b.skip(blog.LeasesContainer, item, err) }})
	if err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "open views", Err: err}
	}
	return v, nil
}

// jobWork returns the work of each kind of job.
func (v *Views) jobWork() map[string]jobs.Work {
	return map[string]jobs.Work{renameJob: v.bylines.rename, deletePostJob: v.deletePost, deleteUserJob: v.deleteUser}
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
	v.feedEnd.readFull(cosmos.WithPattern(ctx, ProjectPosts))
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
	return append(v.projections(), processor{ProjectUsernames, v.users, v.usernames.sweep,
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

// Jobs returns the unfinished jobs.
func (v *Views) Jobs(ctx context.Context) ([]jobs.Job, error) {
	all, err := v.jobs.List(ctx)
	return all, stored.Error("list jobs", err)
}

// ProjectTimelines creates the entries of posts of a bulk load.
func (v *Views) ProjectTimelines(ctx context.Context, posts ...*blog.Post) error {
	changed := map[string]*blog.Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	return v.timelines.write(ctx, changed, true)
}

// timelinesWait is the default of Views.TimelinesWait.
const timelinesWait = time.Second

// UpdateViews updates the summaries and timelines of a post that was just written, so that its author sees the change
// at once. It only logs errors: the projections handle the change, too.
func (v *Views) UpdateViews(ctx context.Context, p *blog.Post) {
	v.updateViews(ctx, p, func(ctx context.Context, p *blog.Post) error {
		return v.timelines.update(ctx, p, v.TimelinesWait)
	})
}

// UpdateSummaries is UpdateViews after an edit that has left the tags as they were.
func (v *Views) UpdateSummaries(ctx context.Context, p *blog.Post) {
	v.updateViews(ctx, p, func(context.Context, *blog.Post) error { return nil })
}

func (v *Views) updateViews(
	ctx context.Context, p *blog.Post, updateTimelines func(context.Context, *blog.Post) error,
) {
	v.summariesUpdated.Set()
	var g errgroup.Group
	g.Go(func() error {
		return WriteSummary(ctx, v.requests.users, p.UserID, p)
	})
	for _, partition := range v.feedPartitions {
		g.Go(func() error {
			if p.Revision == 1 { // a new post is always among the newest
				return WriteSummary(ctx, v.requests.feed, partition, p)
			}
			err := updateSummary(ctx, v.requests.feed, partition, p)
			if cosmos.HasStatus(err, http.StatusNotFound) {
				return nil // not among the newest
			}
			return err
		})
	}
	if p.Tombstone {
		g.Go(func() error {
			// one page: the job deletes the rest
			_, err := (&deletion{Views: v}).deletePostItems(ctx, v.requests.posts, p.ID, time.Now())
			return err
		})
	}
	g.Go(func() error { return updateTimelines(ctx, p) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		v.o.Logger.Warn("views not updated yet", logPost, p.ID, logError, err)
	}
}

// Verify compares all summaries, counts, texts, bylines, reservations, timelines and the feed with their sources,
// looks for items of deleted users and posts without a job that deletes them, and calls report with each
// difference. It can run beside instances that serve: it compares again until a difference is gone or the
// settle time is over. The summary of a post that keeps changing is correct once it has the revision that
// the post had first.
//
// Verify reads all items, and keeps some hundred bytes of memory per post. progress, if not nil, gets the
// number of items read and the estimated total, which is 0 until the users container has been read.
func (v *Views) Verify(
	ctx context.Context, settle time.Duration, progress func(done, total int), report func(Difference),
) error {
	ctx = v.account.Begin(ctx, Verify)
	if err := v.CheckFeed(ctx); err != nil {
		return err
	}
	s := newScan(v.base, progress)
	if err := s.read(ctx); err != nil {
		return err
	}
	return v.registry.verify(ctx, s, settle, report)
}

// Repair fixes one difference that Verify has found, if it still exists. Every write is conditional on
// the ETag or revision that was read, so Repair can run beside instances that serve, and be interrupted.
// If two users have one name, the one who owns the reservation keeps it, and the other gets the name with
// four characters of their id appended. For the remaining items of a deleted user or post, Repair
// enqueues a job. Conflict if a difference cannot be fixed: a name is reserved for another user, the text
// of a post is lost, the source is malformed, or the view is of a later version.
func (v *Views) Repair(ctx context.Context, d Difference) error {
	err := v.registry.repair(ctx, d)
	if d.Kind == Username && d.addressable() && blog.CodeOf(err) == blog.Conflict {
		return v.usernames.names.RenameDuplicate(v.account.Begin(ctx, Repair), d.Partition, d.ID, err)
	}
	return err
}

// CheckFeed returns Conflict if the feed has several partitions and Options.FeedPartitions is
// 0. Call it before running the projections without FillFeed.
func (v *Views) CheckFeed(ctx context.Context) error {
	_, err := v.partitions.read(ctx, v.base.feed)
	return err
}

// FillFeed copies the feed into all its partitions after their number has changed. Call it before serving,
// so that no reader sees an empty partition; if nothing has changed it costs one query. It keeps partitions
// that are no longer used for instances that still read them; Repair deletes their entries. FillFeed waits
// while throttled, and can be interrupted and repeated. Conflict if the feed has several partitions and
// Options.FeedPartitions is 0.
func (v *Views) FillFeed(ctx context.Context) error { return v.partitions.fill(ctx) }

// ProjectFeed writes the posts into every partition of the feed, also if one of them fails, and trims or
// refills the partitions.
func (v *Views) ProjectFeed(ctx context.Context, posts []*blog.Post) error {
	return v.feed.write(ctx, posts)
}

// Full reports whether this process knows that the feed is or was full, so that it may lack older posts even where it
// is short.
func (v *Views) Full() bool { return v.feedEnd.isFull() }

// SeeTimeline learns from the item of the timeline of all posts.
func (v *Views) SeeTimeline(item *blog.TimelineItem) { v.feedEnd.see(item) }
