package projection

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// feedView is the view of the newest posts, in each partition of the feed.
func (v *Views) feedView() view {
	return view{
		kind: FeedEntry,
		project: func(ctx context.Context, c changes) error {
			return v.ProjectFeed(ctx, slices.Collect(maps.Values(c.posts)))
		},
		scanned:  v.scannedFeed,
		replayed: v.replayedFeed,
		compare:  v.compareFeedEntry,
		repair:   v.repairFeedEntry,
	}
}

// scannedFeed lists the entries that are wrong, missing or too old.
func (v *Views) scannedFeed(ctx context.Context, read *verifier) ([]Difference, error) {
	feed, err := v.readFeed(ctx, v.feed)
	if err != nil {
		return nil, err
	}
	found, newest := feed.suspects(), read.newest()
	former, err := readPages[placedEntry](ctx, "read feed", v.feed, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id FROM c WHERE IS_DEFINED(c.deleted) AND IS_DEFINED(c.creationDate)"})
	if err != nil {
		return nil, err
	}
	for _, e := range former {
		found = append(found, Difference{Kind: FeedEntry, Partition: e.Partition, ID: e.ID})
	}
	for _, partition := range v.feedPartitions {
		last := feed.last(partition)
		for i, e := range newest {
			if _, ok := feed[partition][e.ID]; !ok && (i < blog.FeedServed || newestFirst(e, last) < 0) {
				found = append(found, Difference{Kind: FeedEntry, Partition: partition, ID: e.ID})
			}
		}
	}
	return found, nil
}

// replayedFeed lists the posts that are among the newest.
func (v *Views) replayedFeed(ctx context.Context, posts map[string]*blog.Post) (found []Difference, _ error) {
	for _, partition := range v.feedPartitions {
		entries, err := v.feedEntries(ctx, partition)
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

// feedEntry is the id and the sort key of an entry of the feed.
type feedEntry blog.Entry

func entryOf(p *blog.Post) feedEntry { return feedEntry{ID: p.ID, CreatedAt: p.CreatedAt} }

// newestFirst compares entries in the order of the feed.
func newestFirst(a, b feedEntry) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// feedEntries reads the entries of a partition of the feed, newest first.
func (v *Views) feedEntries(ctx context.Context, partition string) ([]feedEntry, error) {
	return readEntries(ctx, "read feed", v.feed, cosmos.Query{Partition: partition,
		Text: "SELECT c.id, c.creationDate, c.deleted FROM c WHERE c.type = @partition ORDER BY c.type DESC, " +
			"c.creationDate DESC, c.id DESC",
	}.With("@partition", partition))
}

// readEntries reads all entries that a query yields, malformed ones included.
func readEntries(ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) (entries []feedEntry, err error) {
	placed, err := readPages[placedEntry](ctx, op, c, q)
	for _, e := range placed {
		if e.Deleted == nil {
			entries = append(entries, e.entry())
		}
	}
	return entries, err
}

// ProjectFeed writes the posts into every partition of the feed, also if one of them fails, and trims or
// refills the partitions.
func (v *Views) ProjectFeed(ctx context.Context, posts []*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	entries, short := make([][]feedEntry, len(v.feedPartitions)), make([]bool, len(v.feedPartitions))
	var g errgroup.Group
	g.SetLimit(workers)
	for i, partition := range v.feedPartitions {
		g.Go(func() (err error) {
			entries[i], short[i], err = v.projectFeedPartition(ctx, partition, posts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, partition := range v.feedPartitions {
		if short[i] {
			if err := v.refillFeed(ctx, partition, entries[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// projectFeedPartition writes the posts that are among the newest into a partition of the feed, and trims
// it to blog.FeedKept entries. Posts older than the last entry cost no request. It returns the entries, and
// whether the partition needs a refill after deletes.
func (v *Views) projectFeedPartition(
	ctx context.Context, partition string, posts []*blog.Post,
) (entries []feedEntry, short bool, err error) {
	if done, err := v.updateFeedCount(ctx, partition, posts); done || err != nil {
		return nil, false, err
	}
	if entries, err = v.feedEntries(ctx, partition); err != nil {
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
	if newest, err = outdated(ctx, v.feed, newest, func(*blog.Post) string { return partition }); err != nil {
		return nil, false, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, workers/len(v.feedPartitions)))
	v.writeSummaries(gctx, g, v.feed, partition, newest)
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	if changed {
		if entries, err = v.feedEntries(ctx, partition); err != nil {
			return nil, false, err
		}
	}
	// A feed that is not full has all posts, or has lost entries by deletes.
	if n := len(entries); n < blog.FeedKept && older || deleted && n < blog.FeedRefill {
		return entries, true, nil
	}
	return entries, false, v.trimFeed(ctx, partition, entries)
}

// updateFeedCount updates the entry of a single post if only its counts have changed: a patch costs less
// than reading the feed. It reports false if the feed has no entry with the same text.
func (v *Views) updateFeedCount(ctx context.Context, partition string, posts []*blog.Post) (bool, error) {
	if len(posts) != 1 || !sameVersion(ctx, posts[0]) {
		return false, nil
	}
	_, err := v.feed.Patch(ctx, stored.Key(partition, posts[0].ID), patchUnversioned(posts[0]))
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return false, nil
	}
	return err == nil, stored.Error("update feed", err)
}

// trimFeed deletes the entries of a partition after the first blog.FeedKept.
func (v *Views) trimFeed(ctx context.Context, partition string, entries []feedEntry) error {
	if len(entries) >= blog.FeedKept {
		if err := v.setFull(ctx); err != nil {
			return err
		}
	}
	for i := blog.FeedKept; i < len(entries); i++ {
		if !blog.Addressable(entries[i].ID) {
			continue // not written by Byline
		}
		err := v.feed.Delete(ctx, stored.Key(partition, entries[i].ID), "")
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
			return stored.Error("trim feed", err)
		}
	}
	return nil
}

// refillFeed appends the newest posts that are older than the last entry of a partition. The first partition is
// refilled from the timeline of all posts, the others from the first. It reads the posts from the primary replica, so
// that a refill that is killed before it reads them again leaves no entry from before a change that was handled.
func (v *Views) refillFeed(ctx context.Context, partition string, entries []feedEntry) error {
	posts, err := v.missingFrom(ctx, partition, entries, blog.FeedKept-len(entries))
	if err != nil {
		return err
	}
	for some := range slices.Chunk(posts, 100) {
		if err := v.writeEachSummary(ctx, v.feed, partition, some...); err != nil {
			return err
		}
		changed, err := v.changedSince(ctx, v.posts, some)
		if err != nil {
			return err
		}
		if err := v.writeEachSummary(ctx, v.feed, partition, changed...); err != nil {
			return err
		}
	}
	return nil
}

// missingFrom returns the posts that a partition with these entries lacks, at most n.
func (v *Views) missingFrom(ctx context.Context, partition string, entries []feedEntry, n int) ([]*blog.Post, error) {
	first := v.feedPartitions[0]
	if partition == first {
		var last blog.Entry
		if len(entries) > 0 {
			last = blog.Entry(entries[len(entries)-1])
		}
		return v.olderPosts(ctx, last, n)
	}
	candidates, err := v.feedEntries(ctx, first)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range candidates {
		if len(ids) < n && !slices.Contains(entries, e) {
			ids = append(ids, e.ID)
		}
	}
	return v.currentPosts(ctx, ids)
}

// compareFeedEntry compares an entry with its post. A post that is not among the newest may be missing
// unless the feed has older ones.
func (v *Views) compareFeedEntry(ctx context.Context, d Difference) (*Difference, error) {
	wrong, err := v.compareSummary(ctx, v.feed, d)
	if wrong == nil || err != nil || wrong.Have != absent {
		return wrong, err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if source == nil || source.Tombstone || err != nil {
		return nil, err
	}
	entries, err := v.feedEntries(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n >= blog.FeedServed && newestFirst(entryOf(source), entries[min(n, blog.FeedKept)-1]) > 0 {
		return nil, nil
	}
	return wrong, nil
}

func (v *Views) repairFeedEntry(ctx context.Context, d Difference) error {
	if err := v.repairSummary(ctx, v.feed, d); err != nil {
		return err
	}
	if !slices.Contains(v.feedPartitions, d.Partition) {
		return nil
	}
	entries, err := v.feedEntries(ctx, d.Partition)
	if err != nil {
		return err
	}
	if len(entries) < blog.FeedRefill {
		return v.refillFeed(ctx, d.Partition, entries)
	}
	return v.trimFeed(ctx, d.Partition, entries)
}
