package projection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// The timelines are the view of posts by date: of all posts, and of those with each tag. An entry is created once and
// deleted once, so likes and comments need no write. A processor remembers whose entries it has seen, so they mostly
// need no read either.
//
// The handler of a change creates the entries of a post, and deletes those of its former tags. The entries of a deleted
// post are deleted by the job that deletes the rest of it, and readers skip them until then.
//
// A process that was paused may create or delete an entry after another has handled a newer version of the post. So the
// handler then reads the post again, from the primary replica, and undoes what does not fit the newer version. In the
// same way it reads the list of months after it has created entries, and who removes an empty month from the list looks
// for entries afterwards: whichever comes second sees the other's write.

// maxEnsured is how many posts and months a processor remembers, those handled last.
const maxEnsured = 1 << 16

// ensuredPosts are the versions of posts whose entries this process has seen or written, by post.
type ensuredPosts = lru.Cache[string, int32]

// listedMonths are partitions of entries whose months this process has seen in the lists.
type listedMonths = lru.Cache[string, struct{}]

func newLRU[V any]() *lru.Cache[string, V] {
	c, _ := lru.New[string, V](maxEnsured) // fails only for sizes below 1
	return c
}

// entryKey is an entry of a timeline.
type entryKey struct {
	timeline blog.Timeline
	month    string
	id       string
}

func (k entryKey) partition() string { return k.timeline.Partition(k.month) }

func entryKeys(p *blog.Post, timelines []blog.Timeline) (keys []entryKey) {
	for _, t := range timelines {
		keys = append(keys, entryKey{t, p.CreatedAt.Month(), p.ID})
	}
	return keys
}

// ProjectTimelines creates the entries of posts of a bulk load. Call CountEntries after the last.
func (v *Views) ProjectTimelines(ctx context.Context, posts ...*blog.Post) error {
	if !v.complete.Load() {
		if err := v.tryBeginTimelines(ctx); err != nil {
			return err
		}
	}
	changed := map[string]*blog.Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	return v.projectTimelines(ctx, changed)
}

// projectTimelines creates the missing entries of changed posts, and deletes those of their former tags.
func (v *Views) projectTimelines(ctx context.Context, posts map[string]*blog.Post) error {
	var unsure, changed []*blog.Post
	var create []blog.EntryItem
	for _, p := range posts {
		if p.Tombstone {
			v.ensured.Remove(p.ID)
			continue
		}
		if version, ok := v.ensured.Get(p.ID); ok && version == p.Version && !changefeed.Replaying(ctx) {
			continue
		}
		changed = append(changed, p)
		if p.Revision == 1 && !changefeed.Repeated(ctx) {
			create = append(create, entriesOf(p)...)
		} else {
			unsure = append(unsure, p)
		}
	}
	missing, former, err := v.compareEntries(ctx, unsure)
	if err != nil {
		return err
	}
	if err := v.writeEntries(ctx, posts, append(create, missing...), former); err != nil {
		return err
	}
	for _, p := range changed {
		v.ensured.Add(p.ID, p.Version)
	}
	return nil
}

func entriesOf(p *blog.Post) (entries []blog.EntryItem) {
	for _, t := range p.Timelines() {
		entries = append(entries, blog.NewEntry(p, t))
	}
	return entries
}

// compareEntries reads the entries of posts, in one request for each partition key range. It returns the missing ones,
// and those of former tags that exist.
func (v *Views) compareEntries(
	ctx context.Context, posts []*blog.Post,
) (missing []blog.EntryItem, former []entryKey, err error) {
	var keys []cosmos.Key
	for _, p := range posts {
		for _, k := range entryKeys(p, append(p.Timelines(), p.FormerTimelines()...)) {
			keys = append(keys, stored.Key(k.partition(), k.id))
		}
	}
	items, err := v.feed.ReadMany(ctx, keys)
	if err != nil {
		return nil, nil, stored.Error("read entries of timelines", err)
	}
	exists := map[cosmos.Key]bool{}
	for _, raw := range items {
		var e blog.EntryItem
		if err := blog.Unmarshal(raw, &e, blog.Lenient); err == nil {
			exists[stored.Key(e.Type, e.ID)] = true
		}
	}
	for _, p := range posts {
		for _, e := range entriesOf(p) {
			if !exists[stored.Key(e.Type, e.ID)] {
				missing = append(missing, e)
			}
		}
		for _, k := range entryKeys(p, p.FormerTimelines()) {
			if exists[stored.Key(k.partition(), k.id)] && !slices.Contains(p.Timelines(), k.timeline) {
				former = append(former, k)
			}
		}
	}
	return missing, former, nil
}

// createEntries lists the months of entries and creates the entries, those of a partition in transactional batches.
// Entries that exist are kept.
func (v *Views) createEntries(ctx context.Context, entries []blog.EntryItem) error {
	byPartition := map[string][]blog.EntryItem{}
	for _, e := range entries {
		byPartition[e.Type] = append(byPartition[e.Type], e)
	}
	var mu sync.Mutex
	changes, unlisted := map[blog.Timeline]*timelineChange{}, map[blog.Timeline]*timelineChange{}
	for partition := range byPartition {
		t, month, ok := blog.ParseEntryPartition(partition)
		if !ok {
			err := fmt.Errorf("malformed partition %q", partition)
			return &blog.Error{Code: blog.Internal, Op: "create entries", Err: err}
		}
		changes[t] = changes[t].with(month)
		if !v.listed.Contains(partition) {
			unlisted[t] = unlisted[t].with(month)
		}
	}
	if err := v.changeTimelines(ctx, unlisted); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for partition, entries := range byPartition {
		t, _, _ := blog.ParseEntryPartition(partition)
		for some := range slices.Chunk(entries, cosmos.MaxBatch) {
			g.Go(func() error {
				created, err := v.createBatch(gctx, partition, some)
				mu.Lock()
				defer mu.Unlock()
				changes[t].posts += created
				return err
			})
		}
	}
	err := g.Wait()
	if err := errors.Join(err, v.changeTimelines(ctx, changes)); err != nil {
		return err
	}
	for partition := range byPartition {
		v.listed.Add(partition, struct{}{})
	}
	return nil
}

// createBatch creates entries of one partition, and returns how many did not exist.
func (v *Views) createBatch(
	ctx context.Context, partition string, entries []blog.EntryItem,
) (created int64, err error) {
	if len(entries) > 1 {
		b := cosmos.Batch{NoItems: true}
		for _, e := range entries {
			b.Create(blog.Encode(e))
		}
		r, err := v.feed.Batch(ctx, partition, &b)
		switch {
		case err == nil && r.Failed < 0:
			return int64(len(entries)), nil
		case err != nil && !refused(err):
			return 0, stored.Error("create entries", err)
		}
	}
	for _, e := range entries {
		item := blog.Encode(e)
		err := v.feed.Create(ctx, partition, item)
		switch {
		case err == nil:
			created++
		case refused(err):
			v.skip(v.feed.Name(), item, err)
		case !cosmos.HasStatus(err, http.StatusConflict):
			return created, stored.Error("create entry", err)
		}
	}
	return created, nil
}

// writeEntries creates and deletes entries of posts, and then undoes what does not fit the posts' latest versions.
func (v *Views) writeEntries(
	ctx context.Context, posts map[string]*blog.Post, create []blog.EntryItem, remove []entryKey,
) error {
	for len(create)+len(remove) > 0 {
		if err := v.createEntries(ctx, create); err != nil {
			return err
		}
		var created []entryKey
		for _, e := range create {
			t, month, _ := blog.ParseEntryPartition(e.Type)
			created = append(created, entryKey{t, month, e.ID})
		}
		_, unwanted, err := v.compareLatest(ctx, posts, created)
		if err != nil {
			return err
		}
		remove = append(remove, unwanted...)
		if err := v.deleteEntries(ctx, remove); err != nil {
			return err
		}
		if create, _, err = v.compareLatest(ctx, posts, remove); err != nil {
			return err
		}
		remove = nil
	}
	return nil
}

// compareLatest reads the posts of entries, and returns the entries that their latest versions have and those that they
// do not have.
func (v *Views) compareLatest(
	ctx context.Context, posts map[string]*blog.Post, keys []entryKey,
) (wanted []blog.EntryItem, unwanted []entryKey, err error) {
	read := map[string]*blog.Post{}
	for _, k := range keys {
		read[k.id] = posts[k.id]
	}
	now, err := v.latest(ctx, slices.Collect(maps.Values(read)))
	if err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		if p := now[k.id]; p != nil && !p.Tombstone && slices.Contains(p.Timelines(), k.timeline) {
			wanted = append(wanted, blog.NewEntry(p, k.timeline))
		} else {
			unwanted = append(unwanted, k)
		}
	}
	return wanted, unwanted, nil
}

// latest reads posts from the primary replica, by id. Those that cannot be read are as they were.
func (v *Views) latest(ctx context.Context, posts []*blog.Post) (map[string]*blog.Post, error) {
	const op = "read changed post"
	var mu sync.Mutex
	now := map[string]*blog.Post{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, p := range posts {
		g.Go(func() error {
			raw, err := v.posts.ReadPrimary(ctx, stored.Key(p.ID, p.ID))
			if err != nil {
				return stored.Error(op, err)
			}
			var have *blog.Post
			if raw != nil {
				if have, err = blog.DecodePostOrTombstone(op, raw); err != nil {
					have = p
				}
			}
			mu.Lock()
			defer mu.Unlock()
			now[p.ID] = have
			return nil
		})
	}
	return now, g.Wait()
}

// deleteEntries deletes entries, which need not exist, and removes months without entries from the lists.
func (v *Views) deleteEntries(ctx context.Context, keys []entryKey) error {
	deleted := map[entryKey]int64{} // without the ids
	for _, k := range keys {
		err := v.feed.Delete(ctx, stored.Key(k.partition(), k.id), "")
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
			return stored.Error("delete entry", err)
		}
		month := entryKey{k.timeline, k.month, ""}
		deleted[month] += 0
		if err == nil {
			deleted[month]++
		}
	}
	return v.entriesDeleted(ctx, deleted)
}

// entriesDeleted subtracts deleted entries, by month, from the counts of their timelines, and removes months without
// entries from the lists.
func (v *Views) entriesDeleted(ctx context.Context, deleted map[entryKey]int64) error {
	changes := map[blog.Timeline]*timelineChange{}
	for month, n := range deleted {
		if changes[month.timeline] == nil {
			changes[month.timeline] = &timelineChange{}
		}
		changes[month.timeline].posts -= n
	}
	if err := v.changeTimelines(ctx, changes); err != nil {
		return err
	}
	for month := range deleted {
		if err := v.removeEmpty(ctx, month.timeline, month.month); err != nil {
			return err
		}
	}
	return nil
}

// timelineChange is what a page of changes does to the item of a timeline.
type timelineChange struct {
	months []string // that must be listed
	posts  int64    // created minus deleted entries
}

// with returns the change, which may be nil, with a month.
func (c *timelineChange) with(month string) *timelineChange {
	if c == nil {
		c = &timelineChange{}
	}
	c.months = append(c.months, month)
	return c
}

// changeTimelines applies changes to the items of timelines.
func (v *Views) changeTimelines(ctx context.Context, changes map[blog.Timeline]*timelineChange) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for t, change := range changes {
		g.Go(func() error { return v.changeTimeline(ctx, t, *change) })
	}
	return g.Wait()
}

// changeTimeline applies a change to the item of a timeline: to a tag's it adds the count, and then it lists missing
// months. It reads the list where writes are executed, after the entries were written.
func (v *Views) changeTimeline(ctx context.Context, t blog.Timeline, change timelineChange) error {
	const op = "change timeline"
	_, tagged := t.Tag()
	counted := !tagged || change.posts == 0
	if tagged && change.posts != 0 {
		defer v.topTags.changed(t)
	}
	for range 10 {
		raw, err := v.countEntries(ctx, t, change.posts, counted)
		if err != nil {
			return stored.Error(op, err)
		}
		if raw == nil && len(change.months) == 0 {
			return nil
		}
		if raw == nil {
			err = v.feed.Create(ctx, t.Key(), blog.Encode(newTimelineItem(t, change)))
		} else {
			counted = true
			var item *blog.TimelineItem
			if item, err = stored.DecodeTimeline(op, raw); err != nil {
				return err
			}
			if !tagged {
				v.SeeTimeline(item)
			}
			months := withMonths(item.Months, change.months)
			if len(months) == len(item.Months) {
				return nil
			}
			_, err = v.feed.Patch(ctx, stored.Key(t.Key(), blog.TimelineID), patchMonths(months, item.ETag))
		}
		if !cosmos.HasStatus(err, http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound) {
			return stored.Error(op, err)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Err: fmt.Errorf("timeline %s keeps changing", t)}
}

// countEntries adds to the count of a timeline, unless that is done already, and returns its item;
// nil if it does not exist.
func (v *Views) countEntries(ctx context.Context, t blog.Timeline, posts int64, done bool) ([]byte, error) {
	key := stored.Key(t.Key(), blog.TimelineID)
	if done {
		return v.feed.ReadPrimary(ctx, key)
	}
	p := cosmos.Patch{ReturnItem: true}
	p.Increment("/posts", posts)
	item, err := v.feed.Patch(ctx, key, p)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return item.Value, err
}

func newTimelineItem(t blog.Timeline, change timelineChange) blog.TimelineItem {
	item := blog.TimelineItem{Envelope: blog.Envelope{Type: t.Key()}, ID: blog.TimelineID}
	item.Months = withMonths([]string{}, change.months)
	if _, tagged := t.Tag(); tagged {
		item.Posts = max(0, change.posts)
	}
	return item
}

// withMonths returns months, newest first, with more.
func withMonths(months, more []string) []string {
	all := slices.Concat(months, more)
	slices.Sort(all)
	slices.Reverse(all)
	return slices.Compact(all)
}

func patchMonths(months []string, etag string) cosmos.Patch {
	p := cosmos.Patch{IfMatch: cosmos.ETag(etag)}
	p.Set("/months", months)
	return p
}

// removeEmpty removes a month from the list of a timeline if it has no entries. It reads the list before it looks for
// entries, so that the write fails if one was created and counted since.
func (v *Views) removeEmpty(ctx context.Context, t blog.Timeline, month string) error {
	const op = "remove empty month"
	for {
		raw, err := v.feed.ReadPrimary(ctx, stored.Key(t.Key(), blog.TimelineID))
		if raw == nil || err != nil {
			return stored.Error(op, err)
		}
		item, err := stored.DecodeTimeline(op, raw)
		if err != nil || !slices.Contains(item.Months, month) {
			return err
		}
		if empty, err := v.isEmpty(ctx, t.Partition(month)); !empty || err != nil {
			return err
		}
		err = v.removeMonth(ctx, t, item, month)
		if err == nil {
			break
		}
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) || ctx.Err() != nil {
			return stored.Error(op, err)
		}
	}
	// A read from the primary replica, so that the query sees it.
	if _, err := v.feed.ReadPrimary(ctx, stored.Key(t.Partition(month), blog.TimelineID)); err != nil {
		return stored.Error(op, err)
	}
	if empty, err := v.isEmpty(ctx, t.Partition(month)); empty || err != nil {
		return err
	}
	return v.changeTimeline(ctx, t, timelineChange{months: []string{month}})
}

// removeMonth removes a month from the list of a timeline, or the item of a tag with its last month.
func (v *Views) removeMonth(ctx context.Context, t blog.Timeline, item *blog.TimelineItem, month string) error {
	key := stored.Key(t.Key(), blog.TimelineID)
	v.listed.Remove(t.Partition(month))
	if _, tagged := t.Tag(); tagged && len(item.Months) == 1 {
		v.topTags.changed(t)
		return v.feed.Delete(ctx, key, cosmos.ETag(item.ETag))
	}
	months := slices.DeleteFunc(slices.Clone(item.Months), func(m string) bool { return m == month })
	_, err := v.feed.Patch(ctx, key, patchMonths(months, item.ETag))
	return err
}

// isEmpty reports whether a month of a timeline has no entries.
func (v *Views) isEmpty(ctx context.Context, partition string) (bool, error) {
	entries, err := stored.ReadEntries(ctx, "look for entries", v.feed, partition, blog.Entry{}, 1)
	return len(entries) == 0, err
}

// beginTimelines records that the timeline of all posts will be complete, if the projections have never run here: then
// they begin with the first post. It repeats a failed attempt until ctx ends.
func (v *Views) beginTimelines(ctx context.Context) {
	for err := v.tryBeginTimelines(ctx); err != nil; err = v.tryBeginTimelines(ctx) {
		if !sleep.For(ctx, v.o.PollInterval) {
			return
		}
		v.o.Logger.Warn("timelines not begun yet", logError, err)
	}
}

func (v *Views) tryBeginTimelines(ctx context.Context) error {
	const op = "begin timelines"
	// The leases are read first: another instance has written the item before it has made leases.
	ranges, err := changefeed.Status(ctx, v.posts.ChangeFeed(), v.leases.ChangeFeed(), projectionsPosts)
	if err != nil {
		return stored.Error(op, err)
	}
	item, err := stored.ReadTimeline(ctx, op, v.feed, blog.AllPosts)
	if err != nil {
		return err
	}
	if item != nil {
		v.SeeTimeline(item)
	}
	if item != nil || len(ranges) > 0 {
		return nil
	}
	return v.setComplete(ctx)
}

// setComplete records that the timeline of all posts has all entries, or will have them when the projections have
// handled all changes from the beginning.
func (v *Views) setComplete(ctx context.Context) error {
	item := newTimelineItem(blog.AllPosts, timelineChange{})
	item.Complete = true
	err := v.feed.Create(ctx, item.Type, blog.Encode(item))
	if cosmos.HasStatus(err, http.StatusConflict) {
		var p cosmos.Patch
		p.Set("/complete", true)
		_, err = v.feed.Patch(ctx, stored.Key(item.Type, item.ID), p)
		if cosmos.HasStatus(err, http.StatusNotFound) && !cosmos.ErrorOf(err).NoContainer() { // nothing deletes it
			err = &blog.Error{Code: blog.Conflict, Op: "complete timeline", Err: err}
		}
	}
	v.complete.Store(err == nil)
	return stored.Error("complete timeline", err)
}

// Timeline reports what this process knows about the timeline of all posts: whether it is complete, so that it
// continues the feed; and whether the feed is or was full, so that it may lack older posts even where it is short.
func (v *Views) Timeline() (complete, full bool) { return v.complete.Load(), v.full.Load() }

// SeeTimeline learns from the item of the timeline of all posts.
func (v *Views) SeeTimeline(item *blog.TimelineItem) {
	v.complete.Store(item.Complete)
	v.full.Store(item.Full)
}

// setFull records that the feed has had so many posts that it may lack older ones.
func (v *Views) setFull(ctx context.Context) error {
	if v.full.Load() {
		return nil
	}
	p := cosmos.Patch{Condition: "from c where NOT IS_DEFINED(c.full)"}
	p.Set("/full", true)
	_, err := v.feed.Patch(ctx, stored.Key(blog.AllPosts.Key(), blog.TimelineID), p)
	if cosmos.HasStatus(err, http.StatusNotFound) { // no entry exists yet
		return nil
	}
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		err = nil
	}
	v.full.Store(err == nil)
	return stored.Error("change timeline", err)
}

// olderPosts returns the newest posts that are older than after, at most wanted, by the timeline of all posts. It
// returns none, and logs that once, before the timeline is complete.
func (v *Views) olderPosts(ctx context.Context, after blog.Entry, wanted int) (posts []*blog.Post, err error) {
	const op = "refill feed"
	item, err := stored.ReadTimeline(ctx, op, v.feed, blog.AllPosts)
	if err != nil {
		return nil, err
	}
	if item != nil {
		v.SeeTimeline(item)
	}
	if item == nil || !item.Complete {
		v.incomplete.Do(func() {
			v.o.Logger.Warn(
				"the feed is not refilled: byline views rebuild lists the posts of an earlier version by date")
		})
		return nil, nil
	}
	for _, month := range item.Months {
		if after.ID != "" && month > after.CreatedAt.Month() {
			continue
		}
		for len(posts) < wanted {
			entries, err := stored.ReadEntries(ctx, op, v.feed, blog.AllPosts.Partition(month), after,
				wanted-len(posts))
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				break
			}
			after = entries[len(entries)-1]
			ids := make([]string, len(entries))
			for i, e := range entries {
				ids[i] = e.ID
			}
			found, err := stored.ReadPosts(ctx, v.posts, ids, v.decodeAnyPost)
			if err != nil {
				return nil, err
			}
			// Without those that were deleted meanwhile, or are malformed.
			posts = append(posts, slices.DeleteFunc(found, func(p *blog.Post) bool { return p == nil })...)
		}
	}
	return posts, nil
}
