package store

import (
	"context"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos/itemcache"
	"byline/store/live"
)

func (s *Store) newEvents() (*live.Events, error) {
	return live.New(live.Options{
		Tail: func(h changefeed.Handler, unwatched func() bool, observe func(changefeed.Progress)) *itemcache.Tail {
			return s.tail("events", s.posts, "postId", h, unwatched, observe)
		},
		KeepsTail: s.posts.Caches(), Deletions: s.deletions,
		ReadPost: func(ctx context.Context, id string) (*blog.Post, error) {
			return s.readPost(s.beginRead(ctx, Subscribe), id)
		},
		PollInterval: s.o.PollInterval, RetryBudget: s.account.RetryBudget(), Clock: s.o.Clock,
		Metrics: s.account.Registerer()})
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
