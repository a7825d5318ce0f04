package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// timelines is the view of the entries of posts in timelines.
func (v *Views) timelines() view {
	return view{
		kind:    TimelineEntry,
		project: func(ctx context.Context, c changes) error { return v.projectTimelines(ctx, c.posts, false) },
		scanned: v.scannedEntries,
		compare: v.compareEntry,
		repair:  v.repairEntry,
	}
}

// timelineItems is the view of the counters of timelines, and of their copies and sums. Their sources are the entries.
func (v *Views) timelineItems() view {
	return view{kind: Timeline, scanned: v.scannedTimelineItems, compare: v.compareTimeline, repair: v.repairTimeline}
}

// timelineScan is what the feed container has of timelines.
type timelineScan struct {
	timelines map[blog.Timeline]*scannedTimeline
	suspects  []Difference // items that are not known, or do not match their posts
}

// scannedTimeline is what there is of a timeline.
type scannedTimeline struct {
	item     blog.TimelineItem
	entries  map[string]int64            // by month
	counters map[string]blog.CounterItem // likewise
}

func newScannedTimeline(t blog.Timeline) *scannedTimeline {
	return &scannedTimeline{blog.NewTimelineItem(t), map[string]int64{}, map[string]blog.CounterItem{}}
}

// malformedItem returns what is compared instead of an item that cannot be decoded.
func malformedItem(t blog.Timeline) *blog.TimelineItem {
	item := blog.NewTimelineItem(t)
	item.Posts = malformedSum
	return &item
}

func (s *timelineScan) timeline(t blog.Timeline) *scannedTimeline {
	if s.timelines[t] == nil {
		s.timelines[t] = newScannedTimeline(t)
	}
	return s.timelines[t]
}

// items returns a possible difference for each timeline whose entries do not match its counters or its item.
func (s *timelineScan) items() (found []Difference) {
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
func (s *scannedTimeline) have() string {
	counters, wanted := map[string]int64{}, s.wanted()
	for month, c := range s.counters {
		if c.Posts != 0 || month != wanted.Uncopied() {
			counters[month] = c.Posts
		}
	}
	return describeTimeline(s.item, counters)
}

// want describes what the counters and the item of a timeline should be.
func (s *scannedTimeline) want() string { return describeTimeline(s.wanted(), s.entries) }

// wanted returns the item as it should be.
func (s *scannedTimeline) wanted() blog.TimelineItem {
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

// scanTimelines reads all timelines. check returns possible differences of entries, which it gets a page at a time.
func (v *Views) scanTimelines(
	ctx context.Context, check func([]blog.EntryItem) ([]Difference, error),
) (*timelineScan, error) {
	const op = "read timelines"
	scan := &timelineScan{timelines: map[blog.Timeline]*scannedTimeline{}}
	scan.timeline(blog.AllPosts)
	q := cosmos.Query{AllPartitions: true, PageSize: 1000, Text: "SELECT * FROM c WHERE NOT " + newestPosts}
	for items, err := range v.feed.Query(ctx, q) {
		if err != nil {
			return nil, stored.Error(op, err)
		}
		var entries []blog.EntryItem
		for _, raw := range items {
			if e, ok := scan.add(raw); ok {
				entries = append(entries, e)
			}
		}
		some, err := check(entries)
		if err != nil {
			return nil, err
		}
		scan.suspects = append(scan.suspects, some...)
	}
	return scan, nil
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
		s.timeline(t).counters[month] = c
	case isEntry:
		s.timeline(t).entries[month]++
		if err == nil {
			return e, true
		}
		s.suspects = append(s.suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
	case isTimeline && e.Type == blog.TimelinesKey:
		item, err := stored.DecodeTimeline("read timelines", raw)
		if err != nil {
			item = malformedItem(listed)
		}
		s.timeline(listed).item = *item
	default:
		s.suspects = append(s.suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
	}
	return e, false
}

// scannedEntries lists the entries that are wrong or missing.
func (v *Views) scannedEntries(ctx context.Context, read *verifier) ([]Difference, error) {
	found := map[string]int{} // right entries, by post
	check := func(entries []blog.EntryItem) (wrong []Difference, _ error) {
		for _, e := range entries {
			if p := read.posts[e.ID]; p != nil && p.exists && !p.deleted && slices.Contains(entriesOf(p.post()), e) {
				found[e.ID]++
			} else {
				wrong = append(wrong, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
			}
		}
		return wrong, nil
	}
	var err error
	if read.timelines, err = v.scanTimelines(ctx, check); err != nil {
		return nil, err
	}
	suspects := read.timelines.suspects
	for id, p := range read.posts {
		if !p.exists || p.deleted {
			continue
		}
		if all := entriesOf(p.post()); found[id] != len(all) {
			for _, e := range all {
				suspects = append(suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: id})
			}
		}
	}
	return suspects, nil
}

// post returns what entries depend on.
func (p *postSummary) post() *blog.Post {
	return &blog.Post{ID: p.entry.ID, Byline: blog.Byline{UserID: p.author}, CreatedAt: p.entry.CreatedAt, Tags: p.tags}
}

func (v *Views) scannedTimelineItems(_ context.Context, read *verifier) ([]Difference, error) {
	return read.timelines.items(), nil
}

// timelineSuspects lists, without the posts of a verifier, the entries that no post has, and the items of timelines
// that are wrong.
func (v *Views) timelineSuspects(ctx context.Context) ([]Difference, error) {
	scan, err := v.scanTimelines(ctx, func(entries []blog.EntryItem) (wrong []Difference, _ error) {
		for some := range slices.Chunk(entries, 100) {
			ids := make([]string, len(some))
			for i, e := range some {
				ids[i] = e.ID
			}
			posts, err := stored.ReadPosts(ctx, v.posts, ids, v.decodeAnyPost)
			if err != nil {
				return nil, err
			}
			for i, e := range some {
				if p := posts[i]; p == nil || !slices.Contains(entriesOf(p), e) {
					wrong = append(wrong, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
				}
			}
		}
		return wrong, nil
	})
	if err != nil {
		return nil, err
	}
	return append(scan.suspects, scan.items()...), nil
}

// compareEntry compares an entry with its post.
func (v *Views) compareEntry(ctx context.Context, d Difference) (*Difference, error) {
	have, _, author, err := v.readEntry(ctx, d)
	if err != nil {
		return nil, err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if want := wantedEntry(source, d.Partition); want != nil {
		d.Want, author = describeEntry(*want), source.UserID
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if deleting, err := v.deletionPending(ctx, d.ID, author); deleting || err != nil {
		return nil, err
	}
	return &d, nil
}

// wantedEntry returns the entry of a post in a partition, nil if there should be none.
func wantedEntry(p *blog.Post, partition string) *blog.EntryItem {
	if p == nil || p.Tombstone {
		return nil
	}
	for _, e := range entriesOf(p) {
		if e.Type == partition {
			return &e
		}
	}
	return nil
}

// readEntry reads an entry, or what is in its place, and the author that it names.
func (v *Views) readEntry(ctx context.Context, d Difference) (have string, r cosmos.Item, author string, err error) {
	r, err = v.feed.Read(ctx, stored.Key(d.Partition, d.ID))
	if r.Value == nil || err != nil {
		return absent, r, "", stored.Error("verify", err)
	}
	var e blog.EntryItem
	if err := blog.Unmarshal(r.Value, &e); err != nil {
		return unreadable, r, "", nil
	}
	return describeEntry(e), r, e.AuthorID, nil
}

func describeEntry(e blog.EntryItem) string { return fmt.Sprintf("%s by %s", e.CreatedAt, e.AuthorID) }

// repairEntry creates, replaces or deletes an entry.
func (v *Views) repairEntry(ctx context.Context, d Difference) error {
	have, item, _, err := v.readEntry(ctx, d)
	if err != nil {
		return err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	want := wantedEntry(source, d.Partition)
	t, month, ok := blog.ParseEntryPartition(d.Partition)
	switch {
	case want != nil && have == absent:
		err = v.createEntries(ctx, []blog.EntryItem{*want})
	case want != nil:
		return stored.Replace(ctx, v.feed, stored.Key(d.Partition, d.ID), item, want)
	case have != absent && ok:
		err = v.removeEntry(ctx, d.Partition, d.ID, item.ETag)
	case have != absent:
		return v.feed.Delete(ctx, stored.Key(d.Partition, d.ID), item.ETag)
	}
	if err != nil || !ok {
		return err
	}
	return v.sums.add(ctx, [][]monthKey{{{t, month}}})
}

// readScanned reads what there is of a timeline.
func (v *Views) readScanned(ctx context.Context, t blog.Timeline) (*scannedTimeline, []byte, error) {
	const op = "verify"
	s := newScannedTimeline(t)
	raw, err := v.feed.ReadPrimary(ctx, stored.TimelineKey(t))
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
	found, err := readPages[json.RawMessage](ctx, op, v.feed, cosmos.Query{AllPartitions: true,
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

// compareTimeline compares the counters and the item of a timeline, whose name is the difference's id, with its
// entries.
func (v *Views) compareTimeline(ctx context.Context, d Difference) (*Difference, error) {
	t, ok := blog.ParseTimeline(d.ID)
	if !ok {
		return nil, nil
	}
	s, _, err := v.readScanned(ctx, t)
	if err != nil {
		return nil, err
	}
	if d.Have, d.Want = s.have(), s.want(); d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// repairTimeline sets the counters of a timeline, unless they have changed since they were read, and then its item.
// Each new entry changes its counter, so a counter that has not changed since before the entries were counted has
// their number.
func (v *Views) repairTimeline(ctx context.Context, d Difference) error {
	t, _ := blog.ParseTimeline(d.ID)
	s, raw, err := v.readScanned(ctx, t)
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
		if err := v.repairCounter(ctx, m); err != nil {
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
		r, err := v.feed.Batch(ctx, blog.TimelinesKey, &b)
		if err != nil || r.Failed >= 0 {
			return cmp.Or(err, r.Err())
		}
	}
	return v.sums.add(ctx, [][]monthKey{months})
}

// repairCounter sets a counter to the number of the entries in its partition.
func (v *Views) repairCounter(ctx context.Context, m monthKey) error {
	const op = "repair counter"
	partition := m.partition()
	key := stored.Key(partition, blog.CounterID)
	raw, err := v.feed.ReadPrimary(ctx, key) // before the entries are counted
	if err != nil {
		return err
	}
	ids, err := readPages[blog.Entry](ctx, op, v.feed, cosmos.Query{Partition: partition,
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
		return v.feed.Create(ctx, partition,
			blog.Encode(blog.CounterItem{Envelope: blog.Envelope{Type: partition}, ID: blog.CounterID, Posts: n}))
	case n == 0:
		return v.feed.Delete(ctx, key, stored.ETagOf(raw))
	}
	var have blog.CounterItem
	if blog.Unmarshal(raw, &have) == nil && have.Posts == n {
		return nil
	}
	p := cosmos.Patch{IfMatch: stored.ETagOf(raw)}
	p.Set("/posts", n)
	_, err = v.feed.Patch(ctx, key, p)
	return err
}
