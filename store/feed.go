package store

import (
	"context"

	"byline/store/blog"
)

// firstDate is before all dates. The tombstones of the feed, whose type is their partition key, have none.
const firstDate = "0"

// Feed is Q6: the summaries of the newest 100 posts, newest first, by one query of one of the feed's
// partitions.
func (s *Store) Feed(ctx context.Context, p Paging) (*Page[*blog.Post], error) {
	ctx = s.beginRead(ctx, Q6)
	l := list[blog.Post]{op: "list feed", container: s.feed, key: "type", partition: blog.TypePost,
		copies: s.feedPartitions, limit: blog.FeedServed, since: firstDate,
		format: blog.Summaries, position: positionOfPost, deletions: s.deletions, show: s.showPost}
	p.Order = NewestFirst
	page, err := l.page(ctx, p)
	return s.withCounts(ctx, page, err)
}
