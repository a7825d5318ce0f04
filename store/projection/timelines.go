package projection

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

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
// need no read either. The writer of a post creates and deletes its entries at once; the projections find them done.
//
// The handler of a change creates the entries of a post, and deletes those of its former tags. The entries of a deleted
// post are deleted by its writer, and by the job that deletes the rest of it; readers skip them until then.
//
// A process that was paused may create or delete an entry after another has handled a newer version of the post. So the
// handler then reads the post again, from the primary replica, and undoes what does not fit the newer version.
//
// An entry is counted in the transactional batch that creates or deletes it: see counters.go.

// maxEnsured is how many posts a processor remembers, those handled last.
const maxEnsured = 1 << 16

// ensuredPosts are the versions of posts whose entries this process has seen or written, by post.
type ensuredPosts = lru.Cache[string, int32]

func newEnsuredPosts() *ensuredPosts {
	c, _ := lru.New[string, int32](maxEnsured) // fails only for sizes below 1
	return c
}

// entryKey is an entry of a timeline.
type entryKey struct {
	monthKey
	id string
}

func entryKeys(p *blog.Post, timelines []blog.Timeline) (keys []entryKey) {
	for _, t := range timelines {
		keys = append(keys, entryKey{monthKey{t, p.CreatedAt.Month()}, p.ID})
	}
	return keys
}

// allEntryKeys returns the entries that a post has, or may have had.
func allEntryKeys(p *blog.Post) []entryKey {
	return entryKeys(p, append(p.Timelines(), p.FormerTimelines()...))
}

// ProjectTimelines creates the entries of posts of a bulk load.
func (v *Views) ProjectTimelines(ctx context.Context, posts ...*blog.Post) error {
	changed := map[string]*blog.Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	return v.projectTimelines(ctx, changed, true)
}

// timelinesWait is the default of Views.TimelinesWait.
const timelinesWait = time.Second

// updateTimelines updates the timelines of a post that was just written, so that its writer sees its tags and the
// counts at once. The requests are those of the projections, which would make them otherwise.
func (v *Views) updateTimelines(ctx context.Context, p *blog.Post) error {
	ctx, cancel := context.WithTimeout(cosmos.Apart(ctx, ProjectPosts), v.TimelinesWait)
	defer cancel()
	if p.Tombstone {
		v.ensured.Remove(p.ID)
		return v.deleteEntries(ctx, allEntryKeys(p))
	}
	return v.projectTimelines(ctx, map[string]*blog.Post{p.ID: p}, true)
}

// projectTimelines creates the missing entries of changed posts, deletes those of their former tags, and adds up the
// counts. If fresh is true, posts of the first revision probably have no entries yet.
func (v *Views) projectTimelines(ctx context.Context, posts map[string]*blog.Post, fresh bool) error {
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
		if p.Revision == 1 && fresh {
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
	groups := make([][]monthKey, len(changed)) // also of entries that existed: who wrote them may have been killed then
	for i, p := range changed {
		groups[i] = monthsOf(allEntryKeys(p))
	}
	if err := v.sums.add(ctx, groups); err != nil {
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

// createEntries creates entries and counts them. Entries that exist are kept.
func (v *Views) createEntries(ctx context.Context, entries []blog.EntryItem) error {
	byPartition := map[string][]blog.EntryItem{}
	for _, e := range entries {
		byPartition[e.Type] = append(byPartition[e.Type], e)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for partition, entries := range byPartition {
		for some := range slices.Chunk(entries, cosmos.MaxBatch-1) {
			g.Go(func() error { return v.createBatch(ctx, partition, some) })
		}
	}
	return g.Wait()
}

// createBatch creates entries of one partition and counts them, in one transactional batch; one by one if some exist.
func (v *Views) createBatch(ctx context.Context, partition string, entries []blog.EntryItem) error {
	const op = "create entries"
	counted := true // a guess: the partition has a counter
	for range 10 {
		b := cosmos.Batch{NoItems: true}
		if counted {
			b.Patch(blog.CounterID, patchCounter(int64(len(entries))))
		} else {
			b.Create(blog.Encode(blog.CounterItem{Envelope: blog.Envelope{Type: partition}, ID: blog.CounterID,
				Posts: int64(len(entries))}))
		}
		for _, e := range entries {
			b.Create(blog.Encode(e))
		}
		r, err := v.feed.Batch(ctx, partition, &b)
		switch {
		case err != nil && !refused(err):
			return stored.Error(op, err)
		case err == nil && r.Failed < 0:
			return nil
		case err == nil && r.Failed == 0:
			counted = !counted
			continue
		case len(entries) == 1 && err != nil: // the counter may be malformed: verify reports it
			err = v.feed.Create(ctx, partition, blog.Encode(entries[0]))
			if refused(err) {
				v.skip(v.feed.Name(), blog.Encode(entries[0]), err)
				return nil
			}
			if cosmos.HasStatus(err, http.StatusConflict) {
				return nil
			}
			return stored.Error(op, err)
		case len(entries) == 1: // it exists, or did a moment ago
			exists, err := v.exists(ctx, partition, entries[0].ID)
			if exists || err != nil {
				return stored.Error(op, err)
			}
			continue
		}
		for i := range entries {
			if err := v.createBatch(ctx, partition, entries[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Err: fmt.Errorf("the counter of %s comes and goes", partition)}
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
			created = append(created, entryKey{monthKey{t, month}, e.ID})
		}
		_, unwanted, err := v.compareLatest(ctx, posts, created)
		if err != nil {
			return err
		}
		remove = append(remove, unwanted...)
		if err := v.removeEntries(ctx, remove); err != nil {
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

// deleteEntries deletes entries, which need not exist, and adds up the counts.
func (v *Views) deleteEntries(ctx context.Context, keys []entryKey) error {
	if err := v.removeEntries(ctx, keys); err != nil {
		return err
	}
	return v.sums.add(ctx, [][]monthKey{monthsOf(keys)})
}

// removeEntries deletes entries, which need not exist, and subtracts them from their counters.
func (v *Views) removeEntries(ctx context.Context, keys []entryKey) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, k := range keys {
		g.Go(func() error { return stored.Error("delete entry", v.removeEntry(ctx, k.partition(), k.id, "")) })
	}
	return g.Wait()
}

// removeEntry deletes an entry, if it exists and has the ETag unless that is "", and subtracts it from the counter.
func (v *Views) removeEntry(ctx context.Context, partition, id string, etag cosmos.ETag) error {
	for range 10 {
		b := cosmos.Batch{NoItems: true}
		if etag == "" {
			b.Delete(id)
		} else {
			b.DeleteIf(id, etag)
		}
		b.Patch(blog.CounterID, patchCounter(-1))
		r, err := v.feed.Batch(ctx, partition, &b)
		var missing string // what the batch did not find
		switch {
		case refused(err): // the counter is malformed
			return v.removeUncounted(ctx, partition, id, etag)
		case err != nil:
			return err
		case r.Failed < 0:
			return nil
		case r.Status != http.StatusNotFound:
			return r.Err()
		case r.Failed == 0:
			missing = id
		default:
			missing = blog.CounterID
		}
		exists, err := v.exists(ctx, partition, missing)
		switch {
		case err != nil:
			return err
		case exists: // by now
		case missing == id:
			return nil
		default:
			return v.removeUncounted(ctx, partition, id, etag)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: "delete entry", Err: fmt.Errorf("%s of %s comes and goes", id, partition)}
}

// removeUncounted deletes an entry, if it exists, of a month without a counter.
func (v *Views) removeUncounted(ctx context.Context, partition, id string, etag cosmos.ETag) error {
	err := v.feed.Delete(ctx, stored.Key(partition, id), etag)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// exists reports whether an item of the feed exists where writes are executed.
func (v *Views) exists(ctx context.Context, partition, id string) (bool, error) {
	raw, err := v.feed.ReadPrimary(ctx, stored.Key(partition, id))
	return raw != nil, err
}

// readFull learns at the start whether the feed has been full. It repeats a failed attempt until ctx ends.
func (v *Views) readFull(ctx context.Context) {
	for err := v.tryReadFull(ctx); err != nil; err = v.tryReadFull(ctx) {
		if !sleep.For(ctx, v.o.PollInterval) {
			return
		}
		v.o.Logger.Warn("timeline not read yet", logError, err)
	}
}

func (v *Views) tryReadFull(ctx context.Context) error {
	item, err := stored.ReadTimeline(ctx, "read timeline", v.feed, blog.AllPosts)
	if item != nil {
		v.SeeTimeline(item)
	}
	return err
}

// Full reports whether this process knows that the feed is or was full, so that it may lack older posts even where it
// is short.
func (v *Views) Full() bool { return v.full.Load() }

// SeeTimeline learns from the item of the timeline of all posts.
func (v *Views) SeeTimeline(item *blog.TimelineItem) { v.full.Store(item.Full) }

// setFull records that the feed has had so many posts that it may lack older ones.
func (v *Views) setFull(ctx context.Context) error {
	if v.full.Load() {
		return nil
	}
	p := cosmos.Patch{Condition: "from c where NOT IS_DEFINED(c.full)"}
	p.Set("/full", true)
	_, err := v.feed.Patch(ctx, stored.TimelineKey(blog.AllPosts), p)
	if cosmos.HasStatus(err, http.StatusNotFound) { // no entry exists yet
		return nil
	}
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		err = nil
	}
	v.full.Store(err == nil)
	return stored.Error("change timeline", err)
}

// olderPosts returns the newest posts that are older than after, at most wanted, by the timeline of all posts.
func (v *Views) olderPosts(ctx context.Context, after blog.Entry, wanted int) (posts []*blog.Post, err error) {
	const op = "refill feed"
	item, err := stored.ReadTimeline(ctx, op, v.feed, blog.AllPosts)
	if item == nil || err != nil {
		return nil, err
	}
	v.SeeTimeline(item)
	for _, month := range item.Newest() {
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
			found, err := v.currentPosts(ctx, ids)
			if err != nil {
				return nil, err
			}
			posts = append(posts, found...)
		}
	}
	return posts, nil
}
