package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// timelineItemView is the view of the counters of timelines, and of their copies and sums. Their sources are the
// entries.
type timelineItemView struct {
	*base
	sums *sums
}

func (i *timelineItemView) kind() Kind { return Timeline }

// suspects lists nothing: the view of the entries, which reads them all, lists the differences of the items.
func (i *timelineItemView) suspects(context.Context, *scan) ([]Difference, error) { return nil, nil }

// timelineScan is what the feed container has of timelines.
type timelineScan struct {
	timelines map[blog.Timeline]*timelineContent
	suspects  []Difference // items that are not known, or do not match their posts
}

// timelineContent is what there is of a timeline.
type timelineContent struct {
	item     blog.TimelineItem
	entries  map[string]int64            // by month
	counters map[string]blog.CounterItem // likewise
}

// newTimelineContent returns the content of a timeline that has nothing.
func newTimelineContent(t blog.Timeline) *timelineContent {
	return &timelineContent{blog.NewTimelineItem(t), map[string]int64{}, map[string]blog.CounterItem{}}
}

// malformedItem returns what is compared instead of an item that cannot be decoded.
func malformedItem(t blog.Timeline) *blog.TimelineItem {
	item := blog.NewTimelineItem(t)
	item.Posts = malformedSum
	return &item
}

func (s *timelineScan) contentOf(t blog.Timeline) *timelineContent {
	if s.timelines[t] == nil {
		s.timelines[t] = newTimelineContent(t)
	}
	return s.timelines[t]
}

// suspectItems returns a possible difference for each timeline whose entries do not match its counters or its item.
func (s *timelineScan) suspectItems() (found []Difference) {
	for t, have := range s.timelines {
		if have.have() != have.want() {
			found = append(found, differenceOf(t))
		}
	}
	return found
}

func differenceOf(t blog.Timeline) Difference {
	return Difference{Kind: Timeline, Partition: blog.TimelinesKey, ID: string(t)}
}

// have describes the counters and the item of a timeline.
func (s *timelineContent) have() string {
	counters, wanted := map[string]int64{}, s.wanted()
	for month, c := range s.counters {
		if c.Posts != 0 || month != wanted.Uncopied() {
			counters[month] = c.Posts
		}
	}
	return describeTimeline(s.item, counters)
}

// want describes what the counters and the item of a timeline should be.
func (s *timelineContent) want() string { return describeTimeline(s.wanted(), s.entries) }

// wanted returns the item as it should be.
func (s *timelineContent) wanted() blog.TimelineItem {
	item := s.item
	item.Count(s.entries)
	return item
}

func describeTimeline(item blog.TimelineItem, counters map[string]int64) string {
	text := fmt.Sprintf("%d posts, %v", item.Posts, item.Months)
	if !maps.Equal(item.Months, counters) {
		text += fmt.Sprintf(", counted %v", counters)
	}
	return text
}

// scan reads all timelines. check returns possible differences of entries, which it gets a page at a time.
func (i *timelineItemView) scan(
	ctx context.Context, check func([]blog.EntryItem) ([]Difference, error),
) (*timelineScan, error) {
	const op = "read timelines"
	read := &timelineScan{timelines: map[blog.Timeline]*timelineContent{}}
	read.contentOf(blog.AllPosts)
	q := cosmos.Query{AllPartitions: true, PageSize: 1000, Text: "SELECT * FROM c WHERE NOT " + newestPosts}
	for items, err := range i.feed.Query(ctx, q) {
		if err != nil {
			return nil, stored.Error(op, err)
		}
		var entries []blog.EntryItem
		for _, raw := range items {
			if e, ok := read.add(raw); ok {
				entries = append(entries, e)
			}
		}
		differences, err := check(entries)
		if err != nil {
			return nil, err
		}
		read.suspects = append(read.suspects, differences...)
	}
	return read, nil
}

// add adds an item of the feed container, and returns it if it is an entry.
func (s *timelineScan) add(raw []byte) (e blog.EntryItem, ok bool) {
	err := blog.Unmarshal(raw, &e)
	t, month, isEntry := blog.ParseEntryPartition(e.Type)
	listed, isTimeline := blog.ParseTimeline(e.ID)
	switch {
	case isEntry && e.ID == blog.CounterID:
		var c blog.CounterItem
		if blog.Unmarshal(raw, &c) != nil {
			c.Posts = -1
		}
		s.contentOf(t).counters[month] = c
	case isEntry:
		s.contentOf(t).entries[month]++
		if err == nil {
			return e, true
		}
		s.suspects = append(s.suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
	case isTimeline && e.Type == blog.TimelinesKey:
		item, err := stored.DecodeTimeline("read timelines", raw)
		if err != nil {
			item = malformedItem(listed)
		}
		s.contentOf(listed).item = *item
	default:
		s.suspects = append(s.suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
	}
	return e, false
}

// read reads what there is of a timeline.
func (i *timelineItemView) read(ctx context.Context, t blog.Timeline) (*timelineContent, []byte, error) {
	const op = "verify"
	s := newTimelineContent(t)
	raw, err := i.feed.ReadPrimary(ctx, stored.TimelineKey(t))
	if err != nil {
		return nil, nil, stored.Error(op, err)
	}
	if raw != nil {
		item, err := stored.DecodeTimeline(op, raw)
		if err != nil {
			item = malformedItem(t)
			item.ETag = string(stored.ETagOf(raw))
		}
		s.item = *item
	}
	found, err := readPages[json.RawMessage](ctx, op, i.feed, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id, c.posts, c._etag FROM c WHERE STARTSWITH(c.type, @prefix)"}.
		With("@prefix", t.Partition("")))
	if err != nil {
		return nil, nil, err
	}
	for _, raw := range found {
		var c blog.CounterItem
		malformed := json.Unmarshal(raw, &c)
		of, month, ok := blog.ParseEntryPartition(c.Type)
		switch {
		case !ok || of != t:
		case c.ID != blog.CounterID:
			s.entries[month]++
		default:
			if malformed != nil {
				c.Posts = -1
			}
			s.counters[month] = c
		}
	}
	return s, raw, nil
}

// compare compares the counters and the item of a timeline, whose name is the difference's id, with its
// entries.
func (i *timelineItemView) compare(ctx context.Context, d Difference) (*Difference, error) {
	t, ok := blog.ParseTimeline(d.ID)
	if !ok {
		return nil, nil
	}
	s, _, err := i.read(ctx, t)
	if err != nil {
		return nil, err
	}
	if d.Have, d.Want = s.have(), s.want(); d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// repair sets the counters of a timeline, unless they have changed since they were read, and then its item.
// Each new entry changes its counter, so a counter that has not changed since before the entries were counted has
// their number.
func (i *timelineItemView) repair(ctx context.Context, d Difference) error {
	t, _ := blog.ParseTimeline(d.ID)
	s, raw, err := i.read(ctx, t)
	if err != nil {
		return err
	}
	var months []monthKey
	for month := range s.entries {
		months = append(months, monthKey{t, month})
	}
	for month := range s.counters {
		if s.entries[month] == 0 {
			months = append(months, monthKey{t, month})
		}
	}
	for _, m := range months {
		if err := i.repairCounter(ctx, m); err != nil {
			return err
		}
	}
	// The item as its months should be. The counters are copied to it again, as they may have changed.
	item := &storedTimeline{TimelineItem: s.wanted(), raw: raw}
	if raw != nil || len(s.entries) > 0 {
		var b cosmos.Batch
		b.NoItems = true
		if err := writeTimeline(&b, t, item); err != nil {
			return err
		}
		r, err := i.feed.Batch(ctx, blog.TimelinesKey, &b)
		if err != nil || r.Failed >= 0 {
			return cmp.Or(err, r.Err())
		}
	}
	return i.sums.add(ctx, [][]monthKey{months})
}

// repairCounter sets a counter to the number of the entries in its partition.
func (i *timelineItemView) repairCounter(ctx context.Context, m monthKey) error {
	const op = "repair counter"
	partition := m.partition()
	key := stored.Key(partition, blog.CounterID)
	raw, err := i.feed.ReadPrimary(ctx, key) // before the entries are counted
	if err != nil {
		return err
	}
	ids, err := readPages[blog.Entry](ctx, op, i.feed, cosmos.Query{Partition: partition,
		Text: "SELECT c.id FROM c WHERE c.type = @partition AND c.id != @counter"}.
		With("@partition", partition).With("@counter", blog.CounterID))
	if err != nil {
		return err
	}
	n := int64(len(ids))
	switch {
	case raw == nil && n == 0:
		return nil
	case raw == nil:
		return i.feed.Create(ctx, partition,
			blog.Encode(blog.CounterItem{Envelope: blog.Envelope{Type: partition}, ID: blog.CounterID, Posts: n}))
	case n == 0:
		return i.feed.Delete(ctx, key, stored.ETagOf(raw))
	}
	var have blog.CounterItem
	if blog.Unmarshal(raw, &have) == nil && have.Posts == n {
		return nil
	}
	p := cosmos.Patch{IfMatch: stored.ETagOf(raw)}
	p.Set("/posts", n)
	_, err = i.feed.Patch(ctx, key, p)
	return err
}
