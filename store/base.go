package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/deletion"
	"byline/store/files"
	"byline/store/projection"
	"byline/store/stored"
)

// The access patterns: the article's ten, with its codes, and those that it omits. Projections have their own.
const (
	OneUser       cosmos.Pattern = "oneUser"       // a user (Q1)
	OnePost       cosmos.Pattern = "onePost"       // a post (Q2)
	UserPosts     cosmos.Pattern = "userPosts"     // a user's posts (Q3)
	Comments      cosmos.Pattern = "comments"      // a post's comments (Q4)
	Likes         cosmos.Pattern = "likes"         // a post's likes (Q5)
	Feed          cosmos.Pattern = "feed"          // the feed (Q6)
	WriteUser     cosmos.Pattern = "writeUser"     // create or edit a user (C1)
	WritePost     cosmos.Pattern = "writePost"     // create or edit a post (C2)
	CreateComment cosmos.Pattern = "createComment" // create a comment (C3)
	LikePost      cosmos.Pattern = "likePost"      // like a post (C4)

	PostCount      cosmos.Pattern = "postCount"      // how many posts a user has
	UserItems      cosmos.Pattern = "userItems"      // how many items a rename or deletion of a user writes
	FeedCount      cosmos.Pattern = "feedCount"      // how many posts there are
	Months         cosmos.Pattern = "months"         // the months that have posts
	MonthCount     cosmos.Pattern = "monthCount"     // how many posts a month has
	Archive        cosmos.Pattern = "archive"        // a month's posts
	ByUsername     cosmos.Pattern = "byUsername"     // a user by name
	ManyUsers      cosmos.Pattern = "manyUsers"      // several users at once
	ManyPosts      cosmos.Pattern = "manyPosts"      // several posts at once
	ManyLikes      cosmos.Pattern = "manyLikes"      // whether a user likes each of several posts
	OneComment     cosmos.Pattern = "oneComment"     // a comment
	OneTag         cosmos.Pattern = "oneTag"         // a tag
	TagPosts       cosmos.Pattern = "tagPosts"       // a tag's posts
	TopTags        cosmos.Pattern = "topTags"        // the most used tags
	SearchPosts    cosmos.Pattern = "search"         // posts that match a query
	OneLike        cosmos.Pattern = "oneLike"        // a like
	DeleteUser                    = deletion.Pattern // without the user's items
	DeletePost     cosmos.Pattern = "deletePost"     // with its comments and likes
	EditComment    cosmos.Pattern = "editComment"
	CreateDraft    cosmos.Pattern = "createDraft"
	CreateUpload   cosmos.Pattern = "createUpload" // whether the user exists
	PublishPost    cosmos.Pattern = "publishPost"
	Drafts         cosmos.Pattern = "drafts"     // a user's drafts
	ManyDrafts     cosmos.Pattern = "manyDrafts" // drafts by id
	DeleteComment  cosmos.Pattern = "deleteComment"
	UnlikePost     cosmos.Pattern = "unlikePost"
	FollowUser     cosmos.Pattern = "followUser"
	UnfollowUser   cosmos.Pattern = "unfollowUser"
	ManyFollows    cosmos.Pattern = "manyFollows" // whether a user follows each of several authors
	Followers      cosmos.Pattern = "followers"   // an author's followers
	Following      cosmos.Pattern = "following"   // the authors whom a user follows
	Home           cosmos.Pattern = "home"        // the posts of the authors whom a user follows
	HomeIndex      cosmos.Pattern = "homeIndex"   // entries of the timeline, for the recency index
	BookmarkPost   cosmos.Pattern = "bookmarkPost"
	RemoveBookmark cosmos.Pattern = "removeBookmark"
	ManyBookmarks  cosmos.Pattern = "manyBookmarks" // whether a user has bookmarked each of several posts
	Bookmarks      cosmos.Pattern = "bookmarks"     // the posts that a user has bookmarked
	LikedPosts     cosmos.Pattern = "likedPosts"    // the posts that a user likes
	Subscribe      cosmos.Pattern = "subscribe"     // whether the post of a subscription exists

	Export    cosmos.Pattern = "export"    // everything about a user
	Readiness cosmos.Pattern = "readiness" // readiness, and whether there are users
)

// patterns lists all access patterns.
var patterns = []cosmos.Pattern{
	OneUser, OnePost, UserPosts, Comments, Likes, Feed, WriteUser, WritePost, CreateComment, LikePost,
	PostCount, UserItems, FeedCount, Months, MonthCount, Archive,
	ByUsername, ManyUsers, ManyPosts, ManyLikes, OneComment, OneLike, OneTag, TagPosts,
	TopTags, SearchPosts, DeleteUser, DeletePost, EditComment, DeleteComment, UnlikePost, Subscribe,
	FollowUser, UnfollowUser, ManyFollows, Followers, Following, Home, HomeIndex,
	BookmarkPost, RemoveBookmark, ManyBookmarks, Bookmarks, LikedPosts,
	CreateDraft, CreateUpload, PublishPost, Drafts, ManyDrafts,
	Export, Readiness,
}

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

	// Recency is how many posts the recency index of home feeds has at most, of some 45 bytes each. Default 100,000.
	Recency int

	// Files has the pictures. Default: none, and there are no uploads.
	Files *files.Files

	// Clock dates items, corrected by the account's time. Default time.Now.
	Clock func() time.Time

	// Logger is the logger of the projections. Default: none.
	Logger *slog.Logger
}

// defaultRecency is the default of Options.Recency.
const defaultRecency = 100_000

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
	if o.Recency == 0 {
		o.Recency = defaultRecency
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

// base is what all operations share: the account and its containers, the clock, and which users are being deleted. It
// knows no operation.
type base struct {
	o         Options
	account   *cosmos.Account
	views     *projection.Views
	deletions *deletion.Tracker // set by New, as other parts of the Store handle what it learns
	recent    *recentIndex

	users, posts, feed, search *cosmos.Container

	// background is for reads at low priority, which wait while Cosmos DB throttles them.
	background struct{ users, posts, feed, search, leases *cosmos.Container }
}

// newBase returns a base without deletions. It does no I/O.
func newBase(account *cosmos.Account, o Options) (*base, error) {
	o = o.withDefaults()
	o.Clock = account.Correct(o.Clock)
	b := &base{o: o, account: account}
	account.Patterns(patterns...)
	var err error
	if b.recent, err = newRecentIndex(o.Recency, account.Registerer()); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "open store", Err: err}
	}
	b.views, err = projection.New(account,
		projection.Options{Database: o.Database, Instance: o.Instance, PollInterval: o.PollInterval,
			FeedPartitions: o.FeedPartitions, BackgroundRU: o.BackgroundRU, Files: o.Files, Clock: o.Clock,
			Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	background := account.Background()
	for _, c := range []struct {
		account *cosmos.Account
		name    string
		to      **cosmos.Container
	}{
		{account, blog.UsersContainer, &b.users}, {account, blog.PostsContainer, &b.posts},
		{account, blog.FeedContainer, &b.feed}, {account, blog.SearchContainer, &b.search},
		{background, blog.UsersContainer, &b.background.users}, {background, blog.PostsContainer, &b.background.posts},
		{background, blog.FeedContainer, &b.background.feed}, {background, blog.SearchContainer, &b.background.search},
		{background, blog.LeasesContainer, &b.background.leases},
	} {
		if *c.to, err = c.account.Container(o.Database, c.name); err != nil {
			return nil, &blog.Error{Code: blog.Invalid, Op: "open store", Field: "database", Reason: blog.ReasonFormat,
				Message: err.Error(), Err: err}
		}
	}
	return b, nil
}

// tail returns a tail of a container's changes, which calls handle and observe unless they are nil.
// partition is the property of the partition key.
func (b *base) tail(
	name string, source *cosmos.Container, partition string, handle changefeed.Handler, unwatched func() bool,
	observe func(changefeed.Progress),
) *itemcache.Tail {
	count := b.views.Observer(name)
	return source.Tail(partition, handle, changefeed.Options{
		PollInterval: b.o.PollInterval, IdleInterval: projection.IdleInterval(b.o.PollInterval), Logger: b.o.Logger,
		Unwatched: unwatched,
		Observe: func(p changefeed.Progress) {
			count(p)
			if observe != nil {
				observe(p)
			}
		}})
}

func (b *base) now() blog.Date { return blog.NewDate(b.o.Clock()) }

// beginRead begins a read, which must hide users that were deleted through another instance longer ago than
// the tracker's lag. Reads of users do not need it: a user item itself says that it is deleted.
func (b *base) beginRead(ctx context.Context, p cosmos.Pattern) context.Context {
	ctx = b.account.Begin(ctx, p)
	b.deletions.Await(ctx)
	return ctx
}

// cached is cosmos.Get.
func cached[T any](
	ctx context.Context, c *cosmos.Container, partition, what string, read func(context.Context) (T, error),
) (T, error) {
	v, err := cosmos.Get(ctx, c, partition, what, read)
	return v, stored.Error("read", err)
}

// cachedMany is cosmos.GetMany.
func cachedMany[T any](
	ctx context.Context, c *cosmos.Container, partitions []string, what string,
	read func(_ context.Context, partitions []string) ([]T, error),
) ([]T, error) {
	all, err := cosmos.GetMany(ctx, c, partitions, what, read)
	return all, stored.Error("read", err)
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

// batch executes the operations that add appends as one transactional batch.
func batch(
	ctx context.Context, c *cosmos.Container, partition string, add func(*cosmos.Batch),
) (cosmos.BatchResult, error) {
	var b cosmos.Batch
	add(&b)
	return c.Batch(ctx, partition, &b)
}

// visible returns a post, or nil if it is hidden.
func (b *base) visible(p *blog.Post) *blog.Post {
	if p == nil || b.deletions.Hides(p.UserID, p.CreatedAt) {
		return nil
	}
	return p
}

// showPost, showComment and showLike prepare an item for readers. They return false for a hidden item.
func (b *base) showPost(p *blog.Post) bool { return b.visible(p) != nil }

func (b *base) showComment(c *blog.Comment) bool {
	if b.deletions.Hides(c.UserID, c.CreatedAt) {
		c.Byline = blog.Byline{UserID: c.UserID}
	}
	return true
}

func (b *base) showLike(l *blog.Like) bool {
	if b.deletions.Hides(l.UserID, l.CreatedAt) {
		l.Byline = blog.Byline{UserID: l.UserID}
	}
	return true
}

// decodePost is blog.DecodePost for a write. NotFound if the post is hidden.
func (b *base) decodePost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if p != nil && b.visible(p) == nil {
		return nil, blog.NoPost(op)
	}
	return p, err
}

// maxDeleteTries is how often a deletion reads an item that likes, comments or edits change at the same time.
const maxDeleteTries = 20

// maxEditTries is how often an edit reads a post or draft that other edits change at the same time.
const maxEditTries = 5

func changedMeanwhile(op string) error {
	return &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
		Message: "other requests keep changing the same item; try again"}
}
