package projection

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// feedView is the view of the newest posts, in each partition of the feed.
type feedView struct {
	*base
	summaries  *summaryView
	partitions *feedPartitions
	end        *feedEnd
}

func (f *feedView) kind() Kind { return FeedEntry }

// project applies changes of posts.
func (f *feedView) project(ctx context.Context, c postChanges) error {
	return f.write(ctx, slices.Collect(maps.Values(c.posts)))
}

// suspects lists the entries that are wrong, missing or too old.
func (f *feedView) suspects(ctx context.Context, s *scan) ([]Difference, error) {
	content, err := f.partitions.read(ctx, f.feed)
	if err != nil {
		return nil, err
	}
	found, newest := content.suspects(), newestOf(s)
	former, err := readPages[placedEntry](ctx, "read feed", f.feed, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id FROM c WHERE IS_DEFINED(c.deleted) AND IS_DEFINED(c.creationDate)"})
	if err != nil {
		return nil, err
	}
	for _, e := range former {
		found = append(found, Difference{Kind: FeedEntry, Partition: e.Partition, ID: e.ID})
	}
	for _, partition := range f.feedKeys {
		last := content.last(partition)
		for i, e := range newest {
			if _, ok := content[partition][e.ID]; !ok && (i < blog.FeedServed || newestFirst(e, last) < 0) {
				found = append(found, Difference{Kind: FeedEntry, Partition: partition, ID: e.ID})
			}
		}
	}
	return found, nil
}

// newestOf returns the newest posts, at most blog.FeedKept.
func newestOf(s *scan) []feedEntry {
	var all []feedEntry
	for _, p := range s.posts {
		if p.exists && !p.deleted {
			all = append(all, feedEntry(p.entry))
		}
	}
	slices.SortFunc(all, newestFirst)
	return all[:min(len(all), blog.FeedKept)]
}

// replaySuspects lists the posts that are among the newest.
func (f *feedView) replaySuspects(ctx context.Context, posts map[string]*blog.Post) (found []Difference, _ error) {
	for _, partition := range f.feedKeys {
		entries, err := f.partitions.entries(ctx, partition)
		if err != nil {
			return nil, err
		}
		for _, p := range posts {
			if len(entries) == 0 || newestFirst(entryOf(p), entries[len(entries)-1]) <= 0 {
				found = append(found, Difference{Kind: FeedEntry, Partition: partition, ID: p.ID})
			}
		}
	}
	return found, nil
}

// write writes the posts into every partition of the feed, also if one of them fails, and trims or
// refills the partitions.
func (f *feedView) write(ctx context.Context, posts []*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	entries, short := make([][]feedEntry, len(f.feedKeys)), make([]bool, len(f.feedKeys))
	var g errgroup.Group
	g.SetLimit(workers)
	for i, partition := range f.feedKeys {
		g.Go(func() (err error) {
			entries[i], short[i], err = f.writePartition(ctx, partition, posts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, partition := range f.feedKeys {
		if short[i] {
			if err := f.end.refill(ctx, partition, entries[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// writePartition writes the posts that are among the newest into a partition of the feed, and trims
// it to blog.FeedKept entries. Posts older than the last entry cost no request. It returns the entries, and
// whether the partition needs a refill after deletes.
func (f *feedView) writePartition(
	ctx context.Context, partition string, posts []*blog.Post,
) (entries []feedEntry, short bool, err error) {
	if done, err := f.updateCount(ctx, partition, posts); done || err != nil {
		return nil, false, err
	}
	if entries, err = f.partitions.entries(ctx, partition); err != nil {
		return nil, false, err
	}
	older, deleted, changed := false, false, false
	var newest []*blog.Post
	for _, p := range posts {
		if n := len(entries); n > 0 && newestFirst(entryOf(p), entries[min(n, blog.FeedKept)-1]) > 0 {
			older = older || !p.Tombstone
			continue
		}
		// A missing summary may have been created since, by another process.
		_, exists := slices.BinarySearchFunc(entries, entryOf(p), newestFirst)
		newest, deleted, changed = append(newest, p), deleted || p.Tombstone, changed || p.Tombstone || !exists
	}
	if newest, err = outdated(ctx, f.feed, newest, func(*blog.Post) string { return partition }); err != nil {
		return nil, false, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, workers/len(f.feedKeys)))
	f.summaries.write(gctx, g, f.feed, partition, newest)
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	if changed {
		if entries, err = f.partitions.entries(ctx, partition); err != nil {
			return nil, false, err
		}
	}
	// A feed that is not full has all posts, or has lost entries by deletes.
	if n := len(entries); n < blog.FeedKept && older || deleted && n < blog.FeedRefill {
		return entries, true, nil
	}
	return entries, false, f.end.trim(ctx, partition, entries)
}

// updateCount updates the entry of a single post if only its counts have changed: a patch costs less
// than reading the feed. It reports false if the feed has no entry with the same text.
func (f *feedView) updateCount(ctx context.Context, partition string, posts []*blog.Post) (bool, error) {
	if len(posts) != 1 || !sameVersion(ctx, posts[0]) {
		return false, nil
	}
	_, err := f.feed.Patch(ctx, stored.Key(partition, posts[0].ID), patchUnversioned(posts[0]))
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, stored.Error("update feed", err)
}

// compare compares an entry with its post. A post that is not among the newest may be missing
// unless the feed has older ones.
func (f *feedView) compare(ctx context.Context, d Difference) (*Difference, error) {
	wrong, err := f.summaries.compareIn(ctx, f.feed, d)
	if wrong == nil || err != nil || wrong.Have != absent {
		return wrong, err
	}
	source, err := f.sourceOf(ctx, d.ID)
	if source == nil || source.Tombstone || err != nil {
		return nil, err
	}
	entries, err := f.partitions.entries(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n >= blog.FeedServed && newestFirst(entryOf(source), entries[min(n, blog.FeedKept)-1]) > 0 {
		return nil, nil
	}
	return wrong, nil
}

func (f *feedView) repair(ctx context.Context, d Difference) error {
	if err := f.summaries.repairIn(ctx, f.feed, d); err != nil {
		return err
	}
	if !slices.Contains(f.feedKeys, d.Partition) {
		return nil
	}
	entries, err := f.partitions.entries(ctx, d.Partition)
	if err != nil {
		return err
	}
	if len(entries) < blog.FeedRefill {
		return f.end.refill(ctx, d.Partition, entries)
	}
	return f.end.trim(ctx, d.Partition, entries)
}

// feedEnd limits the length of the partitions of the feed: it deletes their oldest entries, and appends older posts
// after deletes. It knows whether the feed is or was full.
type feedEnd struct {
	*base
	summaries  *summaryView
	partitions *feedPartitions
	full       atomic.Bool // see isFull
}

// trim deletes the entries of a partition after the first blog.FeedKept.
func (e *feedEnd) trim(ctx context.Context, partition string, entries []feedEntry) error {
	if len(entries) >= blog.FeedKept {
		if err := e.setFull(ctx); err != nil {
			return err
		}
	}
	for i := blog.FeedKept; i < len(entries); i++ {
		if !blog.Addressable(entries[i].ID) {
			continue // not written by Byline
		}
		err := e.feed.Delete(ctx, stored.Key(partition, entries[i].ID), "")
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
			return stored.Error("trim feed", err)
		}
	}
	return nil
}

// refill appends the newest posts that are older than the last entry of a partition. The first partition is
// refilled from the timeline of all posts, the others from the first. It reads the posts from the primary replica, so
// that a refill that is killed before it reads them again leaves no entry from before a change that was handled.
func (e *feedEnd) refill(ctx context.Context, partition string, entries []feedEntry) error {
	posts, err := e.missingFrom(ctx, partition, entries, blog.FeedKept-len(entries))
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(posts, 100) {
		if err := e.summaries.writeEach(ctx, e.feed, partition, chunk...); err != nil {
			return err
		}
		changed, err := e.changedSince(ctx, e.posts, chunk)
		if err != nil {
			return err
		}
		if err := e.summaries.writeEach(ctx, e.feed, partition, changed...); err != nil {
			return err
		}
	}
	return nil
}

// missingFrom returns the posts that a partition with these entries lacks, at most n.
func (e *feedEnd) missingFrom(ctx context.Context, partition string, entries []feedEntry, n int) ([]*blog.Post, error) {
	first := e.feedKeys[0]
	if partition == first {
		var last blog.Entry
		if len(entries) > 0 {
			last = blog.Entry(entries[len(entries)-1])
		}
		return e.olderPosts(ctx, last, n)
	}
	candidates, err := e.partitions.entries(ctx, first)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range candidates {
		if len(ids) < n && !slices.Contains(entries, c) {
			ids = append(ids, c.ID)
		}
	}
	return e.currentPosts(ctx, ids)
}

// readFull learns at the start whether the feed has been full. It repeats a failed attempt until ctx ends.
func (e *feedEnd) readFull(ctx context.Context) {
	for err := e.tryReadFull(ctx); err != nil; err = e.tryReadFull(ctx) {
		if !sleep.For(ctx, e.o.PollInterval) {
			return
		}
		e.o.Logger.Warn("timeline not read yet", logError, err)
	}
}

func (e *feedEnd) tryReadFull(ctx context.Context) error {
	item, err := stored.ReadTimeline(ctx, "read timeline", e.feed, blog.AllPosts)
	if item != nil {
		e.see(item)
	}
	return err
}

// isFull reports whether this process knows that the feed is or was full, so that it may lack older posts even where it
// is short.
func (e *feedEnd) isFull() bool { return e.full.Load() }

// see learns from the item of the timeline of all posts.
func (e *feedEnd) see(item *blog.TimelineItem) { e.full.Store(item.Full) }

// setFull records that the feed has had so many posts that it may lack older ones.
func (e *feedEnd) setFull(ctx context.Context) error {
	if e.full.Load() {
		return nil
	}
	p := cosmos.Patch{Condition: "from c where NOT IS_DEFINED(c.full)"}
	p.Set("/full", true)
	_, err := e.feed.Patch(ctx, stored.TimelineKey(blog.AllPosts), p)
	if cosmos.HasStatus(err, http.StatusNotFound) { // no entry exists yet
		return nil
	}
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		err = nil
	}
	e.full.Store(err == nil)
	return stored.Error("change timeline", err)
}

// olderPosts returns the newest posts that are older than after, at most wanted, by the timeline of all posts.
func (e *feedEnd) olderPosts(ctx context.Context, after blog.Entry, wanted int) (posts []*blog.Post, err error) {
	const op = "refill feed"
	item, err := stored.ReadTimeline(ctx, op, e.feed, blog.AllPosts)
	if item == nil || err != nil {
		return nil, err
	}
	e.see(item)
	for _, month := range item.Newest() {
		if after.ID != "" && month > after.CreatedAt.Month() {
			continue
		}
		for len(posts) < wanted {
			entries, err := stored.ReadEntries(ctx, op, e.feed, blog.AllPosts.Partition(month), after,
				wanted-len(posts))
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				break
			}
			after = entries[len(entries)-1]
			ids := make([]string, len(entries))
			for i, entry := range entries {
				ids[i] = entry.ID
			}
			found, err := e.currentPosts(ctx, ids)
			if err != nil {
				return nil, err
			}
			posts = append(posts, found...)
		}
	}
	return posts, nil
}
