package projection

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
	"byline/store/username"
)

// processors apply the changes of the change feeds to the views.
type processors struct {
	*base
	registry   *registry
	usernames  *usernameView
	bylines    *bylineView
	feedEnd    *feedEnd
	follows    *followView
	likes      *likedView
	files      *fileDeletions
	checked    *lru.Cache[string, int64] // the last revisions of users whose reservations were right
	postChange changefeed.Signal         // set by UpdateViews: a post has changed, not only its counts
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

// projections returns the processors that a rebuild resets.
func (p *processors) projections() []processor {
	return []processor{
		{ProjectPosts, p.posts, p.handlePosts,
			changefeed.Options{Name: projectionsPosts, PollInterval: p.o.PollInterval, Wake: p.posts.Writes(),
				Settle: countInterval(p.o.PollInterval), Hurry: &p.postChange}},
		{ProjectUsers, p.users, p.handleUsers,
			changefeed.Options{Name: "projections-users", PollInterval: p.o.PollInterval, Wake: p.users.Writes()}},
	}
}

// all returns all processors.
func (p *processors) all() []processor {
	return append(p.projections(), processor{ProjectUsernames, p.users, p.usernames.sweep,
		changefeed.Options{Name: "usernames", PollInterval: sweepPolls * p.o.PollInterval}})
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

// run is Views.Run.
func (p *processors) run(ctx context.Context) error {
	all, running := p.all(), map[string]*changefeed.Processor{}
	for _, c := range all {
		o := c.options
		o.Owner, o.IdleInterval, o.Expiry = p.o.Instance, IdleInterval(o.PollInterval),
			max(leaseExpiry, leasePolls*o.PollInterval)
		o.MaxItems, o.Logger, o.Observe = pageSize, p.o.Logger, p.observer(o.Name)
		processor, err := changefeed.New(c.source.ChangeFeed(), p.leases.ChangeFeed(), c.handle, o)
		if err != nil {
			return &blog.Error{Code: blog.Internal, Op: "run projections", Err: err}
		}
		running[o.Name] = processor
	}
	p.feedEnd.readFull(cosmos.WithPattern(ctx, ProjectPosts))
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range all {
		g.Go(func() error { return running[c.options.Name].Run(cosmos.WithPattern(ctx, c.pattern)) })
	}
	g.Go(func() error { return p.jobs.Run(ctx) })
	g.Go(func() error { return p.follows.run(cosmos.WithPattern(ctx, ProjectUsers)) })
	g.Go(func() error { return p.likes.run(cosmos.WithPattern(ctx, ProjectPosts)) })
	g.Go(func() error { return p.files.run(cosmos.WithPattern(ctx, Jobs)) })
	p.metrics.running.Store(&running)
	defer p.metrics.running.CompareAndSwap(&running, nil)
	return stored.Error("run projections", g.Wait())
}

// rangeAway is longer than the time between two pages of a range that this instance owns.
const rangeAway = 30 * time.Second

// observer counts the progress of a processor, and lists the jobs when this instance acquires a range: the former
// owner of the range may have left jobs.
func (p *processors) observer(name string) func(changefeed.Progress) {
	observe := p.metrics.observer(name)
	var last sync.Map // time of the last page, by range
	return func(progress changefeed.Progress) {
		observe(progress)
		now := time.Now()
		if before, ok := last.Swap(progress.Range, now); !ok || now.Sub(before.(time.Time)) > rangeAway {
			p.jobs.Refresh()
		}
	}
}

// Status is the progress of a processor in one feed range of a container.
type Status struct {
	Processor string // "projections-posts", "projections-users", or "usernames" (the sweep)
	Container string
	changefeed.RangeStatus
}

// status is Views.Status.
func (p *processors) status(ctx context.Context) ([]Status, error) {
	var all []Status
	for _, c := range p.all() {
		ranges, err := changefeed.Status(ctx, c.source.ChangeFeed(), p.leases.ChangeFeed(), c.options.Name)
		if err != nil {
			return nil, stored.Error("read status of projections", err)
		}
		for _, r := range ranges {
			all = append(all, Status{c.options.Name, c.source.Name(), r})
		}
	}
	return all, nil
}

// reset resets the checkpoints of the projections.
func (p *processors) reset(ctx context.Context) error {
	for _, c := range p.projections() {
		if err := changefeed.Reset(ctx, c.source.ChangeFeed(), p.leases.ChangeFeed(), c.options.Name); err != nil {
			return stored.Error("rebuild", err)
		}
	}
	return nil
}

// beginLoad is Views.BeginLoad.
func (p *processors) beginLoad(ctx context.Context) (end func(context.Context) error, err error) {
	const op = "begin load"
	var skips []func(context.Context) error
	for _, c := range p.all() {
		o := changefeed.Options{Name: c.options.Name, Owner: p.o.Instance, Clock: p.o.Clock}
		skip, err := changefeed.BeginLoad(ctx, c.source.ChangeFeed(), p.leases.ChangeFeed(), o)
		if errors.Is(err, changefeed.ErrRunning) {
			return nil, &blog.Error{Code: blog.Conflict, Op: op, Err: err,
				Message: "an instance serves the database: stop it, or wait some seconds if it was killed"}
		}
		if err != nil {
			return nil, stored.Error(op, err)
		}
		skips = append(skips, skip)
	}
	return func(ctx context.Context) error {
		for _, skip := range skips {
			if err := skip(ctx); err != nil {
				return stored.Error("end load", err)
			}
		}
		return nil
	}, nil
}

// handlePosts handles changes of the posts container: it applies them to the views, and enqueues jobs that delete what
// belongs to deleted posts.
func (p *processors) handlePosts(ctx context.Context, items [][]byte) error {
	const op = "project posts"
	c := postChanges{posts: map[string]*blog.Post{}}
	for _, raw := range items {
		item, ok := p.decodeChange(raw)
		if !ok {
			continue
		}
		if item.Type == blog.TypeText {
			continue // its post changes with it
		}
		if item.Type == blog.TypePost {
			post, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				p.skip(blog.PostsContainer, raw, err)
				continue
			}
			c.posts[post.ID] = post
		}
		if item.Deleted {
			continue
		}
		if item.Type == blog.TypeLike {
			var like changedLike
			if err := blog.Unmarshal(raw, &like, blog.Lenient); err != nil {
				p.skip(blog.PostsContainer, raw, err)
				continue
			}
			c.likes = append(c.likes, like)
		}
		c.authored = append(c.authored, item)
	}
	var err error
	if c.authors, err = p.bylines.authors(ctx, c.authored); err != nil {
		return err
	}
	for _, view := range p.registry.views {
		if projector, ok := view.(projector); ok {
			if err := projector.project(ctx, c); err != nil {
				return err
			}
		}
	}
	// The job erases the tombstone, which then changes no summary: so it is enqueued after the views are written.
	deleted := map[string]int64{} // revisions
	for _, post := range c.posts {
		if post.Tombstone && !post.Erased() {
			deleted[post.ID] = post.Revision
		}
	}
	if err := p.enqueue(ctx, deletePostJob, deleted); err != nil {
		return err
	}
	if !changefeed.Replaying(ctx) {
		return nil
	}
	return p.registry.repairReplayed(ctx, c.posts)
}

// handleUsers handles changes of the users container. It projects follows. It enqueues a job for a user whose byline
// has changed or who was deleted, and reserves the name if its reservation is missing: the sweep may have released it
// while a process was paused within a rename. In a rebuild it also repairs summaries and reservations.
func (p *processors) handleUsers(ctx context.Context, items [][]byte) error {
	const op = "project users"
	renamed, deleted := map[string]int64{}, map[string]int64{} // generations of jobs
	var suspects []Difference
	var follows []blog.FollowItem
	checked := map[string]int64{} // revisions
	for _, raw := range items {
		var e blog.AnyItem
		err := blog.Unmarshal(raw, &e, blog.Lenient)
		if err == nil && e.Type == "" {
			err = errors.New("no type")
		}
		if err != nil {
			p.skip(blog.UsersContainer, raw, err)
			continue
		}
		if e.Type == blog.TypeFollower {
			item, err := blog.DecodeFollow(op, raw)
			if err == nil && (!blog.ValidID(item.UserID) || !blog.ValidID(item.OwnerID)) {
				err = errors.New("malformed userId or ownerId")
			}
			if err != nil {
				p.skip(blog.UsersContainer, raw, err)
				continue
			}
			follows = append(follows, *item)
		}
		if e.Type != blog.TypeUser {
			if changefeed.Replaying(ctx) {
				suspects = append(suspects, suspectOf(e.Envelope, raw)...)
			}
			continue
		}
		u, live, err := blog.Decode[blog.UserItem](op, blog.TypeUser, raw)
		if err == nil && !blog.ValidID(u.UserID) {
			err = errors.New("malformed userId")
		}
		if err != nil {
			p.skip(blog.UsersContainer, raw, err)
			continue
		}
		if !live {
			deleted[u.UserID] = deletionGeneration(u)
			p.checked.Remove(u.UserID) // revisions begin again when the user registers again
			continue
		}
		if !u.Spread() && (!changefeed.Replaying(ctx) || p.renamedRecently(u)) {
			renamed[u.UserID] = max(renamed[u.UserID], u.Revision)
		}
		if changefeed.Replaying(ctx) {
			suspects = append(suspects, Difference{Kind: FollowCount, Partition: u.UserID, ID: u.UserID})
		} else if revision, ok := p.checked.Get(u.UserID); ok && revision == u.Revision &&
			!changefeed.Repeated(ctx) {
			continue // only counts have changed
		}
		checked[u.UserID] = u.Revision
		suspects = append(suspects, Difference{Kind: Username, Partition: username.Key(u.Username), ID: u.UserID})
	}
	if err := p.follows.project(ctx, follows); err != nil {
		return err
	}
	wrong, err := p.registry.compareAll(ctx, suspects)
	if err != nil {
		return err
	}
	if err := p.registry.repairAll(ctx, wrong); err != nil {
		return err
	}
	for _, d := range wrong {
		delete(checked, d.ID)
	}
	for id, revision := range checked {
		p.checked.Add(id, revision)
	}
	if err := p.enqueue(ctx, deleteUserJob, deleted); err != nil {
		return err
	}
	return p.enqueue(ctx, renameJob, renamed)
}

// deletionGeneration returns the generation of a deletion job. It increases with later deletions of the same
// user: revisions restart when the subject registers again.
func deletionGeneration(u blog.UserItem) int64 {
	return max(u.Revision, u.DeletedAt.Time().UnixMilli())
}

// renamesReplayed is the age from which on a replay enqueues no job for a byline: the user's items are replayed,
// too, and their bylines compared. Later changes may not have been handled yet.
const renamesReplayed = 24 * time.Hour

func (p *processors) renamedRecently(u blog.UserItem) bool {
	for _, dates := range [][]blog.Date{u.Renames, u.Changes} {
		if len(dates) > 0 && p.o.Clock().Sub(dates[len(dates)-1].Time()) < renamesReplayed {
			return true
		}
	}
	return false
}

// suspectOf returns the possible differences of a replayed summary, reservation, follow or liked post.
func suspectOf(e blog.Envelope, raw []byte) []Difference {
	switch e.Type {
	case blog.TypePost:
		var item blog.Authored
		if json.Unmarshal(raw, &item) == nil && blog.ValidID(item.ID) && blog.ValidID(item.UserID) {
			return []Difference{{Kind: Summary, Partition: item.UserID, ID: item.ID}}
		}
	case blog.TypeFollower:
		if f, err := blog.DecodeFollow("rebuild", raw); err == nil {
			return []Difference{{Kind: Follower, Partition: f.UserID, ID: f.ID},
				{Kind: Following, Partition: f.OwnerID, ID: blog.FollowingID(f.UserID)}}
		}
	case blog.TypeFollowing:
		if f, err := blog.DecodeFollow("rebuild", raw); err == nil {
			return []Difference{{Kind: Following, Partition: f.UserID, ID: f.ID}}
		}
	case blog.TypeLiked:
		if s, err := blog.DecodeSaved("rebuild", raw); err == nil {
			return []Difference{{Kind: Liked, Partition: s.UserID, ID: s.ID}}
		}
	case blog.TypeUsername:
		if r, ok, err := blog.Decode[username.Reservation]("rebuild", blog.TypeUsername, raw); ok && err == nil {
			return []Difference{{Kind: Username, Partition: r.ID, ID: r.OwnerID}}
		}
	}
	return nil
}
