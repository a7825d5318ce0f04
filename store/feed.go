package store

import (
	"context"

	"byline/store/blog"
)

// firstDate is before all dates. The tombstones of the feed, whose type is their partition key, have none.
const firstDate = "0"

// Feed is Q6: the summaries of the newest 100 posts, newest first, by one query of one of the feed's partitions. It
// continues into the timeline of all posts.
func (s *Store) Feed(ctx context.Context, p Paging) (*Page[*blog.Post], error) {
	const op = "list feed"
	ctx = s.beginRead(ctx, Q6)
	l := list[blog.Post]{op: op, container: s.feed, key: "type", partition: blog.TypePost,
		copies: s.feedPartitions, limit: blog.FeedServed, since: firstDate,
		format: blog.Summaries, position: positionOfPost, deletions: s.deletions, show: s.showPost}
	p.Order = NewestFirst
	page, err := l.page(ctx, p)
	if err == nil {
		page, err = s.withOlder(ctx, op, page, p)
	}
	return s.withCounts(ctx, page, err)
}
