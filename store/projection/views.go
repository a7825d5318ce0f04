package projection

import (
	"context"
	"net/http"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
	"byline/store/username"
)

// Views maintains the denormalized views: it makes them, and passes calls on to them. It is safe for concurrent use.
type Views struct {
	// ViewsWait limits how long the writer of a post waits for its entries, their counts, and its search item; 1 s.
	// Tests raise it before they use the Views.
	ViewsWait time.Duration

	base          *base
	registry      *registry
	bylines       *bylineView
	timelines     *timelineView
	search        *searchView
	summaries     *summaryView
	partitions    *feedPartitions
	feedEnd       *feedEnd
	feed          *feedView
	usernames     *usernameView
	follows       *followView
	likes         *likedView
	files         *fileDeletions
	postDeletions *postDeletions
	userDeletions *userDeletionView
	processors    *processors
}

// viewsWait is the default of Views.ViewsWait.
const viewsWait = time.Second

// New returns the views of a database. It does no I/O. Invalid if the number of feed
// partitions or the name of the database is.
func New(account *cosmos.Account, o Options) (*Views, error) {
	b, err := newBase(account, o)
	if err != nil {
		return nil, err
	}
	v := &Views{base: b, ViewsWait: viewsWait, registry: &registry{base: b}, bylines: &bylineView{b}}
	s := newSums(b)
	items := &timelineItemView{b, s}
	v.timelines = newTimelineView(b, s, items)
	v.search = newSearchView(b)
	v.summaries = &summaryView{b}
	v.partitions = &feedPartitions{b, v.registry}
	v.feedEnd = &feedEnd{base: b, summaries: v.summaries, partitions: v.partitions}
	v.feed = &feedView{b, v.summaries, v.partitions, v.feedEnd}
	v.usernames = &usernameView{b, &username.Names{Users: b.users, Clock: o.Clock, Logger: o.Logger}, v.registry}
	v.follows = newFollowView(b)
	v.likes = newLikedView(b)
	v.files = &fileDeletions{b}
	v.postDeletions = &postDeletions{b, v.timelines.entries, v.files}
	v.userDeletions = &userDeletionView{b, s, v.partitions, v.feedEnd, v.registry}
	checked, _ := lru.New[string, int64](maxVersions) // fails only for sizes below 1
	v.processors = &processors{base: b, checked: checked, registry: v.registry, usernames: v.usernames,
		bylines: v.bylines, feedEnd: v.feedEnd,
		follows: v.follows, likes: v.likes, files: v.files}
	// The timelines before the feed, whose oldest entries are deleted.
	v.registry.views = []view{v.bylines, v.timelines, items, v.summaries, v.feed,
		&countView{b}, &textView{b}, v.search, v.usernames, &followCountView{b}, &followerView{v.follows}, v.follows,
		v.likes, v.userDeletions}
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
	return map[string]jobs.Work{renameJob: v.bylines.rename, deletePostJob: v.postDeletions.delete,
		deleteUserJob: v.userDeletions.delete, sweepFilesJob: v.files.sweep}
}

// Run applies the changes of posts and users to the views, from the last checkpoint on, executes jobs, and
// releases abandoned usernames. Any number of processes may run it: they divide the feed ranges by leases. It
// returns nil when ctx ends.
//
// Every write of a view is conditional and idempotent: a change that is handled twice, late, or by two
// processes never makes a view older.
func (v *Views) Run(ctx context.Context) error { return v.processors.run(ctx) }

// Observer returns a function that counts the progress of a reader of the change feed in
// byline_projection_changes_total and byline_projection_failures_total.
func (v *Views) Observer(name string) func(changefeed.Progress) { return v.base.metrics.observer(name) }

// Jobs returns the unfinished jobs.
func (v *Views) Jobs(ctx context.Context) ([]jobs.Job, error) {
	all, err := v.base.jobs.List(ctx)
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

// ProjectSearch creates the search items of posts of a bulk load, which must have their texts.
func (v *Views) ProjectSearch(ctx context.Context, posts ...*blog.Post) error {
	return v.search.load(ctx, posts)
}

// UpdateViews updates the summaries, timelines and search item of a post that was just written, so that its author sees
// the change at once. It only logs errors: the projections handle the change, too.
func (v *Views) UpdateViews(ctx context.Context, p *blog.Post) {
	v.UpdateEdited(ctx, p, Edit{Tags: true, Texts: true})
}

// UpdateFollowing has Run write the view of a follow that was just written, given the author's item or its tombstone: a
// moment later, so that the writer need not wait.
func (v *Views) UpdateFollowing(item *blog.FollowItem) { v.follows.update(item) }

// DeleteOrphan has Run delete an item of a reader's own list, the view of a like that has ended or a bookmark whose
// post was deleted: some seconds later, and only if the like or the post does not exist.
func (v *Views) DeleteOrphan(typ, userID, postID string) { v.likes.enqueue(typ, userID, postID) }

// Edit is what an edit has changed of a post.
type Edit struct{ Tags, Texts bool } // Texts: the title or the content

// UpdateEdited is UpdateViews after an edit.
func (v *Views) UpdateEdited(ctx context.Context, p *blog.Post, e Edit) {
	v.processors.postChange.Set()
	var g errgroup.Group
	g.Go(func() error {
		return WriteSummary(ctx, v.base.requests.users, p.UserID, p)
	})
	for _, partition := range v.base.feedKeys {
		g.Go(func() error {
			if p.Revision == 1 { // a new post is always among the newest
				return WriteSummary(ctx, v.base.requests.feed, partition, p)
			}
			err := updateSummary(ctx, v.base.requests.feed, partition, p)
			if cosmos.HasStatus(err, http.StatusNotFound) {
				return nil // not among the newest
			}
			return err
		})
	}
	if p.Tombstone {
		g.Go(func() error { return v.postDeletions.update(ctx, p.ID) })
	}
	if e.Tags {
		g.Go(func() error { return v.timelines.update(ctx, p, v.ViewsWait) })
	}
	if e.Tags || e.Texts {
		g.Go(func() error { return v.search.update(ctx, p, v.ViewsWait) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		v.base.o.Logger.Warn("views not updated yet", logPost, p.ID, logError, err)
	}
}

// Verify compares all summaries, counts, texts, bylines, reservations, follows, timelines, search items and the feed
// with their sources, looks for items of deleted users and posts without a job that deletes them, and calls report with
// each difference. It can run beside instances that serve: it compares again until a difference is gone or the settle
// time is over. The summary of a post that keeps changing is correct once it has the revision that the post had first.
//
// Verify reads all items, and keeps some hundred bytes of memory per post. progress, if not nil, gets the
// number of items read and the estimated total, which is 0 until the users container has been read.
func (v *Views) Verify(
	ctx context.Context, settle time.Duration, progress func(done, total int), report func(Difference),
) error {
	ctx = v.base.account.Begin(ctx, Verify)
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
		return v.usernames.names.RenameDuplicate(v.base.account.Begin(ctx, Repair), d.Partition, d.ID, err)
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

// Status returns the progress and the owner of every feed range, of the projections and of the
// sweep of usernames. It takes no lease. It returns nothing before the first Run.
func (v *Views) Status(ctx context.Context) ([]Status, error) {
	return v.processors.status(v.base.account.Begin(ctx, Verify))
}

// Rebuild resets the checkpoints of the projections, in all instances, to the beginning of the change feeds.
// Until they reach the present end of the feeds, they compare and repair all views of the changed items, as
// Verify and Repair do. Rebuild does not wait for that: Run does the work, in any instance, and Status
// reports the remaining transactions (Replay). It can run at any time; after an error, call it again.
func (v *Views) Rebuild(ctx context.Context) error {
	ctx = v.base.account.Begin(ctx, Repair)
	// No change reports an entry of the feed or of a timeline, or a search item, without a post: compare them first.
	content, err := v.partitions.read(ctx, v.base.feed)
	if err != nil {
		return err
	}
	entries, err := v.timelines.readSuspects(ctx)
	if err != nil {
		return err
	}
	found, err := v.search.readSuspects(ctx)
	if err != nil {
		return err
	}
	if err := v.registry.repairAll(ctx, slices.Concat(content.suspects(), entries, found)); err != nil {
		return err
	}
	return v.processors.reset(ctx)
}

// BeginLoad begins a bulk load that writes the views itself, as Store.Import does. Conflict if an instance serves
// the database. After the load, end makes the projections begin after it, if they had handled all changes before
// and have not started since; otherwise they read the load's changes, too.
func (v *Views) BeginLoad(ctx context.Context) (end func(context.Context) error, err error) {
	return v.processors.beginLoad(ctx)
}
