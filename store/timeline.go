package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/stored"
)

// A page of a timeline takes the entries by one query of the month's partition, or of two where a month ends, and their
// posts in one batch. Posts that were deleted a moment ago, are hidden, or have lost the tag still have entries: if a
// page has some, the next ones are read until it is full.

// A page is shorter than it could be, and the next one goes on, after maxMonths months, which matters for a timeline
// with few posts a month, or maxRounds batches of posts, which matters while many posts are being deleted.
const (
	maxMonths = 12
	maxRounds = 10

	deletionPause = 10 * time.Second // before another attempt at a page of posts that are being deleted
)

func manyDeletions(op string) error {
	return &blog.Error{Code: blog.Unavailable, Op: op, RetryAfter: deletionPause,
		Message: "many items are being deleted; try again later"}
}

// timelinePage fills a page with up to first posts that are older than after.
type timelinePage struct {
	*base
	op       string
	timeline blog.Timeline
	months   []string // newest first
	after    blog.Entry
	belongs  func(*blog.Post) bool // nil: all posts
}

// begin checks a request for a page of the list with a name, and returns the page, without posts.
func (t *timelinePage) begin(list string, p Paging) (*Page[*blog.Post], error) {
	if p.First < 1 || p.First > blog.MaxPage {
		return nil, invalidFirst(t.op)
	}
	after, err := decodeCursor(t.op, list, p.After)
	if err != nil {
		return nil, err
	}
	page := &Page[*blog.Post]{list: list, position: positionOfPost}
	if after != nil {
		page.seen, t.after = after.Seen, blog.Entry{CreatedAt: after.Date, ID: after.ID}
	}
	return page, nil
}

// fill appends posts to a page of up to first posts, and sets More. Unavailable if it finds none in maxRounds batches.
func (t timelinePage) fill(ctx context.Context, to *Page[*blog.Post], first int) error {
	to.More = false
	left := maxMonths
	for round := 1; len(to.Items) <= first; round++ {
		if round > maxRounds && len(to.Items) == 0 {
			return manyDeletions(t.op)
		}
		entries, read, err := t.next(ctx, first+1-len(to.Items), left)
		if err != nil {
			return err
		}
		posts, err := t.listedPosts(ctx, entries)
		if err != nil {
			return err
		}
		for _, p := range posts {
			if p != nil && (t.belongs == nil || t.belongs(p)) {
				to.Items = append(to.Items, p)
			}
		}
		if left -= read; (left <= 0 || round >= maxRounds) && len(to.Items) > 0 {
			to.More = len(t.months) > 0
			break
		}
		if len(entries) == 0 && len(t.months) == 0 {
			break
		}
	}
	to.cut(first)
	return nil
}

// next returns the next n entries. It returns fewer if it reaches the last month, or has read as many months as most
// allows. ended is the number of months that it has read to the end.
func (t *timelinePage) next(ctx context.Context, n, most int) (entries []blog.Entry, ended int, err error) {
	for len(t.months) > 0 && t.after.ID != "" && t.months[0] > t.after.CreatedAt.Month() {
		t.months = t.months[1:]
	}
	for len(entries) < n && len(t.months) > 0 && ended < max(1, most) {
		want, after := n-len(entries), t.after
		partition := t.timeline.Partition(t.months[0])
		what := fmt.Sprintf("entries %d/%s/%s", want, after.CreatedAt, after.ID)
		some, err := cached(ctx, t.feed, partition, what, func(ctx context.Context) ([]blog.Entry, error) {
			some, err := stored.ReadEntries(ctx, t.op, t.feed, partition, after, want)
			itemcache.AddSize(ctx, weight(some, 0, nil))
			return some, err
		})
		if err != nil {
			return nil, ended, err
		}
		if entries = append(entries, some...); len(some) > 0 {
			t.after = some[len(some)-1]
		}
		if len(some) < want {
			t.months = t.months[1:]
			ended++
		}
	}
	return entries, ended, nil
}

// listedPosts reads the posts of entries in one request, without the texts of long ones: nil for those that do not
// exist, or are hidden.
func (b *base) listedPosts(ctx context.Context, entries []blog.Entry) ([]*blog.Post, error) {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	read := func(ctx context.Context, ids []string) ([]*blog.Post, error) {
		posts, err := stored.ReadPosts(ctx, b.posts, ids, blog.DecodePost)
		for i, p := range posts {
			posts[i] = b.visible(p)
		}
		addDerived(ctx, posts...)
		return posts, err
	}
	return cachedMany(ctx, b.posts, ids, "post without text", read)
}

// timelineStore reads lists of posts by date: the feed, and the timelines of all posts and of tags.
type timelineStore struct {
	*base
	shown *shownCounts
	feeds []string // partition keys of the feed, each of which holds all of it
}

// firstDate is before all dates. The tombstones of the feed, whose type is their partition key, have none.
const firstDate = "0"

// FeedPartitions returns the number of partitions of the feed.
func (s *timelineStore) FeedPartitions() int { return len(s.feeds) }

// Feed is Q6: the summaries of the newest 100 posts, newest first, by one query of one of the feed's partitions. It
// continues into the timeline of all posts.
func (s *timelineStore) Feed(ctx context.Context, p Paging) (*Page[*blog.Post], error) {
	const op = "list feed"
	ctx = s.beginRead(ctx, Feed)
	l := list[blog.Post]{op: op, container: s.feed, key: "type", partition: blog.TypePost,
		copies: s.feeds, limit: blog.FeedServed, since: firstDate,
		format: blog.Summaries, position: positionOfPost, deletions: s.deletions, show: s.showPost}
	p.Order = NewestFirst
	page, err := l.page(ctx, p)
	if err == nil {
		page, err = s.withOlder(ctx, op, page, p)
	}
	return s.shown.withCounts(ctx, page, err)
}

// Total returns the length of a list.
type Total func(context.Context) (int32, error)

// FeedCount returns the approximate number of all posts: two point reads.
func (s *timelineStore) FeedCount(ctx context.Context) (int32, error) {
	const op = "count posts"
	ctx = s.beginRead(ctx, FeedCount)
	item, err := s.timelineItem(ctx, op, blog.AllPosts)
	if item == nil || err != nil {
		return 0, err
	}
	newest, err := s.counter(ctx, op, item.Uncopied())
	return count32(item.Posts + newest), err
}

// counter reads how many posts a month has.
func (s *timelineStore) counter(ctx context.Context, op, month string) (int64, error) {
	partition := blog.AllPosts.Partition(month)
	return cached(ctx, s.feed, partition, "counter", func(ctx context.Context) (int64, error) {
		return stored.ReadCounter(ctx, op, s.feed, partition)
	})
}

// count32 returns a count, which may have drifted below 0.
func count32(n int64) int32 { return int32(min(max(n, 0), 1<<31-1)) }

// timelineItem reads the item of a timeline; nil if it does not exist.
func (b *base) timelineItem(ctx context.Context, op string, t blog.Timeline) (*blog.TimelineItem, error) {
	return cached(ctx, b.feed, blog.TimelinesKey, string(t), func(ctx context.Context) (*blog.TimelineItem, error) {
		return stored.ReadTimeline(ctx, op, b.feed, t)
	})
}

// withOlder returns a page of the newest posts, continued by the timeline of all posts where the newest end. The page
// may be cached, so it is not modified.
func (s *timelineStore) withOlder(
	ctx context.Context, op string, page *Page[*blog.Post], p Paging,
) (*Page[*blog.Post], error) {
	last := page.seen+len(page.Items) >= blog.FeedServed // of the newest posts
	if page.More && (!last || len(page.Items) == p.First) ||
		!page.More && !s.views.Full() && page.seen < blog.FeedServed {
		return page, nil
	}
	item, err := s.timelineItem(ctx, op, blog.AllPosts)
	if item == nil || err != nil {
		return page, err
	}
	t := timelinePage{base: s.base, op: op, timeline: blog.AllPosts, months: item.Newest()}
	if n := len(page.Items); n > 0 {
		t.after = blog.Entry{CreatedAt: page.Items[n-1].CreatedAt, ID: page.Items[n-1].ID}
	} else if page.after != nil {
		t.after = blog.Entry{CreatedAt: page.after.Date, ID: page.after.ID}
	}
	longer := *page
	longer.Items = slices.Clone(page.Items)
	return &longer, t.fill(ctx, &longer, p.First)
}

// handleFeed is a handler of changes of the feed container: this instance may not project posts itself.
func (s *timelineStore) handleFeed(_ context.Context, items [][]byte) error {
	s.indexEntries(items)
	for _, raw := range items {
		if !bytes.Contains(raw, []byte(blog.TimelinesKey)) {
			continue
		}
		item, err := stored.DecodeTimeline("follow feed", raw)
		if err == nil && item.Type == blog.TimelinesKey && item.ID == string(blog.AllPosts) {
			s.views.SeeTimeline(item)
		}
	}
	return nil
}

// Months returns the months that have posts, newest first: two point reads. The item of the timeline has the counts of
// all but the newest month, whose counter is read.
func (s *timelineStore) Months(ctx context.Context) (months []*blog.Month, err error) {
	const op = "list months"
	ctx = s.beginRead(ctx, Months)
	item, err := s.timelineItem(ctx, op, blog.AllPosts)
	if item == nil || err != nil {
		return nil, err
	}
	for _, month := range item.Newest() {
		posts := item.Months[month]
		if month == item.Uncopied() {
			if posts, err = s.counter(ctx, op, month); err != nil {
				return nil, err
			}
		}
		if n := count32(posts); n > 0 {
			months = append(months, &blog.Month{Month: month, PostCount: n})
		}
	}
	return months, nil
}

// Archive is the posts that were published in a month, newest first: one query of one partition, and one batch of
// reads. Invalid if the month is malformed.
func (s *timelineStore) Archive(ctx context.Context, month string, p Paging) (*Page[*blog.Post], error) {
	const op = "list posts of a month"
	if err := checkMonth(op, month); err != nil {
		return nil, err
	}
	t := timelinePage{base: s.base, op: op, timeline: blog.AllPosts, months: []string{month}}
	page, err := t.begin(s.feed.Name()+"/"+blog.AllPosts.Partition(month), p)
	if err != nil {
		return nil, err
	}
	return page, t.fill(s.beginRead(ctx, Archive), page, p.First)
}

// MonthCount returns the approximate number of the posts of a month: one point read.
func (s *timelineStore) MonthCount(ctx context.Context, month string) (int32, error) {
	const op = "count posts of a month"
	if err := checkMonth(op, month); err != nil {
		return 0, err
	}
	n, err := s.counter(s.beginRead(ctx, MonthCount), op, month)
	return count32(n), err
}

func checkMonth(op, month string) error {
	if !blog.ValidMonth(month) {
		return blog.Invalidf(op, "month", blog.ReasonFormat, "must be a month such as 2026-11")
	}
	return nil
}

// Tag is a tag that posts may have.
type Tag struct {
	Name      string // its key, see blog.ParseTag
	PostCount int32  // approximate

	timeline *blog.TimelineItem // nil: no posts
	read     bool               // timeline is set
}

// Tag reads a tag by name, in any spelling: one point read. A tag exists even while no post has it, so that a page of
// a tag does not come and go with its posts. It returns nil for an invalid name.
func (s *timelineStore) Tag(ctx context.Context, name string) (*Tag, error) {
	name, ok := blog.TagKey(name)
	if !ok {
		return nil, nil
	}
	item, err := s.timelineItem(s.beginRead(ctx, OneTag), "read tag", blog.TagTimeline(name))
	if err != nil {
		return nil, err
	}
	tag := &Tag{Name: name, timeline: item, read: true}
	if item != nil {
		tag.PostCount = count32(item.Posts)
	}
	return tag, nil
}

// TagPosts is the posts with a tag, newest first: one query of one partition, or two where a month ends, and one batch
// of reads.
func (s *timelineStore) TagPosts(ctx context.Context, tag *Tag, p Paging) (*Page[*blog.Post], error) {
	timeline := blog.TagTimeline(tag.Name)
	t := timelinePage{base: s.base, op: "list posts with tag", timeline: timeline,
		belongs: func(p *blog.Post) bool { return p.HasTag(tag.Name) }}
	page, err := t.begin(s.feed.Name()+"/"+string(timeline), p)
	if err != nil {
		return nil, err
	}
	ctx = s.beginRead(ctx, TagPosts)
	item := tag.timeline
	if !tag.read {
		if item, err = s.timelineItem(ctx, t.op, timeline); err != nil {
			return nil, err
		}
	}
	if item == nil {
		return page, nil
	}
	t.months = item.Newest()
	return page, t.fill(ctx, page, p.First)
}

// TopTags reads the most used tags, at most first, and those with the same count in descending order of their
// timelines: one query of one partition. A shorter list is the beginning of a longer one.
func (s *timelineStore) TopTags(ctx context.Context, first int) ([]*Tag, error) {
	if first < 1 || first > blog.MaxPage {
		return nil, invalidFirst("list most used tags")
	}
	ctx = s.beginRead(ctx, TopTags)
	return cached(ctx, s.feed, blog.TimelinesKey, fmt.Sprint("most used tags ", first),
		func(ctx context.Context) ([]*Tag, error) { return s.readTopTags(ctx, first) })
}

func (s *timelineStore) readTopTags(ctx context.Context, first int) (tags []*Tag, err error) {
	const op = "list most used tags"
	q := cosmos.Query{Partition: blog.TimelinesKey, PageSize: int32(first + 1), // one may be AllPosts
		Text: "SELECT c.id, c.posts FROM c WHERE c.type = @type AND c.posts > 0 " +
			"ORDER BY c.type DESC, c.posts DESC, c.id DESC"}
	for items, err := range s.feed.Query(ctx, q.With("@type", blog.TimelinesKey)) {
		if err != nil {
			return nil, stored.Error(op, err)
		}
		for _, raw := range items {
			item, err := stored.DecodeTimeline(op, raw)
			if err != nil {
				return nil, err
			}
			if name, ok := blog.Timeline(item.ID).Tag(); ok && len(tags) < first {
				tags = append(tags, &Tag{Name: name, PostCount: count32(item.Posts)})
			}
		}
		if len(tags) == first {
			break
		}
	}
	itemcache.AddSize(ctx, 120*len(tags))
	return tags, nil
}
