package projection

import (
	"context"
	"fmt"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// timelines is the view of the entries of posts in timelines.
func (v *Views) timelines() view {
	return view{
		kind:    TimelineEntry,
		project: func(ctx context.Context, c changes) error { return v.projectTimelines(ctx, c.posts) },
		scanned: v.scannedEntries,
		compare: v.compareEntry,
		repair:  v.repairEntry,
	}
}

// timelineItems is the view of the months of timelines, and of the counts of tags. Their sources are the entries.
func (v *Views) timelineItems() view {
	return view{kind: Timeline, scanned: v.scannedTimelineItems, compare: v.compareTimeline, repair: v.repairTimeline}
}

// timelineScan is what the feed container has of timelines.
type timelineScan struct {
	timelines map[blog.Timeline]*scannedTimeline
	suspects  []Difference // items that are not known, or do not match their posts
}

type scannedTimeline struct {
	item    blog.TimelineItem
	entries map[string]int64 // by month
}

func (s *timelineScan) timeline(t blog.Timeline) *scannedTimeline {
	if s.timelines[t] == nil {
		s.timelines[t] = &scannedTimeline{entries: map[string]int64{}}
	}
	return s.timelines[t]
}

// items returns a possible difference for each item of a timeline that its entries do not match.
func (s *timelineScan) items() (found []Difference) {
	for t, have := range s.timelines {
		if describeTimeline(t, &have.item) != describeTimeline(t, have.wanted(t)) {
			found = append(found, Difference{Kind: Timeline, Partition: t.Key(), ID: blog.TimelineID})
		}
	}
	return found
}

// wanted returns what the item of a timeline should have.
func (s *scannedTimeline) wanted(t blog.Timeline) *blog.TimelineItem {
	item := blog.TimelineItem{Complete: t == blog.AllPosts}
	for month, n := range s.entries {
		item.Months = withMonths(item.Months, []string{month})
		item.Posts += n
	}
	return &item
}

func describeTimeline(t blog.Timeline, item *blog.TimelineItem) string {
	switch {
	case len(item.Months) == 0:
		return "no posts"
	case t != blog.AllPosts:
		return fmt.Sprintf("%d posts, %v", item.Posts, item.Months)
	case !item.Complete:
		return "incomplete"
	}
	return fmt.Sprint(item.Months)
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
	if t, month, ok := blog.ParseEntryPartition(e.Type); ok {
		s.timeline(t).entries[month]++
		if err == nil {
			return e, true
		}
	}
	if t, ok := blog.ParseTimelineKey(e.Type); ok && e.ID == blog.TimelineID {
		if item, err := stored.DecodeTimeline("read timelines", raw); err == nil {
			s.timeline(t).item = *item
			return e, false
		}
	}
	if e.Type != blog.TopTagsKey || e.ID != blog.TopTagsKey {
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

// CountEntries corrects the months of timelines and the counts of tags after a bulk load, which may have been
// interrupted.
func (v *Views) CountEntries(ctx context.Context) error {
	scan, err := v.scanTimelines(ctx, func([]blog.EntryItem) ([]Difference, error) { return nil, nil })
	if err != nil {
		return err
	}
	wrong := scan.items()
	if !scan.timeline(blog.AllPosts).item.Complete { // it lacks older posts, and the repair would call it complete
		wrong = slices.DeleteFunc(wrong, func(d Difference) bool { return d.Partition == blog.AllPosts.Key() })
	}
	if err := v.repairAll(ctx, wrong); err != nil {
		return err
	}
	return v.repairAll(ctx, []Difference{theTopTags})
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
		return v.createEntries(ctx, []blog.EntryItem{*want})
	case want != nil:
		err = stored.Replace(ctx, v.feed, stored.Key(d.Partition, d.ID), item, want)
	case have != absent:
		if err = v.feed.Delete(ctx, stored.Key(d.Partition, d.ID), item.ETag); err == nil && ok {
			return v.entriesDeleted(ctx, map[entryKey]int64{{t, month, ""}: 1})
		}
	}
	return err
}

// readScanned reads the months of a timeline and its item.
func (v *Views) readScanned(ctx context.Context, t blog.Timeline) (*scannedTimeline, *blog.TimelineItem, error) {
	const op = "verify"
	raw, err := v.feed.ReadPrimary(ctx, stored.Key(t.Key(), blog.TimelineID))
	if err != nil {
		return nil, nil, stored.Error(op, err)
	}
	item := &blog.TimelineItem{}
	if raw != nil {
		if item, err = stored.DecodeTimeline(op, raw); err != nil {
			return nil, nil, err
		}
	}
	entries, err := readPages[blog.AnyItem](ctx, op, v.feed, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type FROM c WHERE STARTSWITH(c.type, @prefix)"}.With("@prefix", t.Partition("")))
	if err != nil {
		return nil, nil, err
	}
	s := &scannedTimeline{item: *item, entries: map[string]int64{}}
	for _, e := range entries {
		if of, month, ok := blog.ParseEntryPartition(e.Type); ok && of == t {
			s.entries[month]++
		}
	}
	return s, item, nil
}

// compareTimeline compares the item of a timeline, whose partition is the difference's, with its entries.
func (v *Views) compareTimeline(ctx context.Context, d Difference) (*Difference, error) {
	t, ok := blog.ParseTimelineKey(d.Partition)
	if !ok {
		return nil, nil
	}
	s, item, err := v.readScanned(ctx, t)
	if err != nil {
		return nil, err
	}
	if d.Have, d.Want = describeTimeline(t, item), describeTimeline(t, s.wanted(t)); d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// repairTimeline sets the months of a timeline, and the count of a tag, unless its item has changed since it was read.
func (v *Views) repairTimeline(ctx context.Context, d Difference) error {
	t, _ := blog.ParseTimelineKey(d.Partition)
	s, item, err := v.readScanned(ctx, t)
	if err != nil {
		return err
	}
	want, key := s.wanted(t), stored.Key(t.Key(), blog.TimelineID)
	_, tagged := t.Tag()
	if tagged {
		defer v.topTags.changed(t)
	}
	switch {
	case item.ETag == "":
		want.Envelope, want.ID = blog.Envelope{Type: t.Key()}, blog.TimelineID
		return v.feed.Create(ctx, t.Key(), blog.Encode(want))
	case tagged && len(want.Months) == 0:
		return v.feed.Delete(ctx, key, cosmos.ETag(item.ETag))
	}
	p := patchMonths(append([]string{}, want.Months...), item.ETag)
	if tagged {
		p.Set("/posts", want.Posts)
	} else {
		p.Set("/complete", true)
	}
	_, err = v.feed.Patch(ctx, key, p)
	return err
}
