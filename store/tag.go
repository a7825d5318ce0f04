package store

import (
	"context"
	"fmt"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/stored"
)

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
