package projection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// feedContent is the feed's entries by partition and id.
type feedContent map[string]map[string]placedEntry

// placedEntry is an entry of the feed with its partition. Malformed fields are zero.
type placedEntry struct {
	Partition string `json:"type"`
	ID        string `json:"id"`
	CreatedAt any    `json:"creationDate"`
	Revision  any    `json:"revision"`
	Deleted   any    `json:"deleted"`
}

// readFeed reads the entries of all partitions of the newest posts, including those no longer in use. Conflict if the
// feed has several partitions and Options.FeedPartitions is 0.
func (v *Views) readFeed(ctx context.Context, c *cosmos.Container) (feedContent, error) {
	const op = "read feed"
	entries, err := readPages[placedEntry](ctx, op, c, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id, c.creationDate, c.revision, c.deleted FROM c WHERE " + newestPosts})
	if err != nil {
		return nil, err
	}
	feed := feedContent{}
	for _, e := range entries {
		if e.Deleted != nil {
			continue
		}
		if feed[e.Partition] == nil {
			feed[e.Partition] = map[string]placedEntry{}
		}
		feed[e.Partition][e.ID] = e
	}
	if n := feed.partitionCount(); n > 0 && v.o.FeedPartitions == 0 {
		return nil, &blog.Error{Code: blog.Conflict, Op: op, Field: "feedPartitions", Message: fmt.Sprintf(
			"the feed of database %s has %d partitions: use --feed-partitions %[2]d, like the other instances, or "+
				"--feed-partitions 1 to go back to one", v.o.Database, n)}
	}
	return feed, nil
}

// newestPosts is the condition of the summaries of the newest posts in the feed container, which also has the
// timelines.
const newestPosts = "(c.type = '" + blog.TypePost + "' OR STARTSWITH(c.type, '" + blog.FeedPartitionPrefix + "'))"

// NotEntries is the condition of items of the feed container that are not entries of timelines. Only entries have an
// index of their authors.
const NotEntries = "(NOT IS_STRING(c.type) OR NOT (STARTSWITH(c.type, 'all.') OR STARTSWITH(c.type, 'tag.')))"

// partitionCount returns the number of partitions with a suffix; 0 if the feed is not partitioned.
func (f feedContent) partitionCount() (n int) {
	for partition := range f {
		if strings.HasPrefix(partition, blog.FeedPartitionPrefix) {
			n++
		}
	}
	return n
}

// suspects returns a possible difference for each entry.
func (f feedContent) suspects() (all []Difference) {
	for partition, entries := range f {
		for id := range entries {
			all = append(all, Difference{Kind: FeedEntry, Partition: partition, ID: id})
		}
	}
	return all
}

// newest returns the ids of the newest posts in any partition, at most blog.FeedKept.
func (f feedContent) newest() (ids []string) {
	var all []feedEntry
	for _, entries := range f {
		for _, e := range entries {
			all = append(all, e.entry())
		}
	}
	slices.SortFunc(all, newestFirst)
	for _, e := range slices.Compact(all) {
		ids = append(ids, e.ID)
	}
	return ids[:min(len(ids), blog.FeedKept)]
}

// last returns the oldest entry of a partition, the zero entry if it is empty.
func (f feedContent) last(partition string) (last feedEntry) {
	for _, e := range f[partition] {
		if e := e.entry(); last.ID == "" || newestFirst(e, last) > 0 {
			last = e
		}
	}
	return last
}

// entry returns the entry without its partition.
func (e placedEntry) entry() feedEntry {
	return feedEntry{ID: e.ID, CreatedAt: blog.Date(fmt.Sprint(e.CreatedAt))}
}

// isFilled reports whether the feed has exactly these partitions, with the same entries in each. They
// differ after an interrupted FillFeed, or a return to an earlier number of partitions.
func (f feedContent) isFilled(partitions []string) bool {
	for _, partition := range partitions {
		if f[partition] == nil || !maps.EqualFunc(f[partition], f[partitions[0]], placedEntry.sameVersion) {
			return false
		}
	}
	return len(f) == len(partitions)
}

func (e placedEntry) sameVersion(o placedEntry) bool {
	return fmt.Sprint(e.CreatedAt, e.Revision) == fmt.Sprint(o.CreatedAt, o.Revision)
}

// CheckFeed returns Conflict if the feed has several partitions and Options.FeedPartitions is
// 0. Call it before running the projections without FillFeed.
func (v *Views) CheckFeed(ctx context.Context) error {
	_, err := v.readFeed(ctx, v.feed)
	return err
}

// FillFeed copies the feed into all its partitions after their number has changed. Call it before serving,
// so that no reader sees an empty partition; if nothing has changed it costs one query. It keeps partitions
// that are no longer used for instances that still read them; Repair deletes their entries. FillFeed waits
// while throttled, and can be interrupted and repeated. Conflict if the feed has several partitions and
// Options.FeedPartitions is 0.
func (v *Views) FillFeed(ctx context.Context) error {
	const op = "fill feed"
	ctx = cosmos.WithUnlimitedRetries(ctx)
	feed, err := v.readFeed(ctx, v.requests.feed)
	if err != nil {
		return err
	}
	if len(feed) == 0 || feed.isFilled(v.feedPartitions) {
		return nil
	}
	var written atomic.Int64
	var gone []Difference
	for ids := range slices.Chunk(feed.newest(), 100) {
		posts, err := stored.ReadPosts(ctx, v.requests.posts, ids, v.decodeAnyPost)
		if err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		for _, partition := range v.feedPartitions {
			for i, id := range ids {
				have, exists := feed[partition][id]
				revision, _ := have.Revision.(float64)
				switch p := posts[i]; {
				case p == nil && exists:
					gone = append(gone, Difference{Kind: FeedEntry, Partition: partition, ID: id})
				case p != nil && int64(revision) < p.Revision:
					g.Go(func() error {
						written.Add(1)
						return WriteSummary(gctx, v.requests.feed, partition, p)
					})
				}
			}
		}
		if err := g.Wait(); err != nil {
			return stored.Error(op, err)
		}
		changed, err := v.changedSince(ctx, v.requests.posts, posts)
		if err != nil {
			return err
		}
		for _, p := range changed {
			for _, partition := range v.feedPartitions {
				if err := WriteSummary(ctx, v.requests.feed, partition, p); err != nil {
					return stored.Error(op, err)
				}
			}
		}
	}
	if err := v.repairAll(ctx, gone); err != nil {
		return err
	}
	v.o.Logger.Info("the feed's partitions are filled", logCount, len(v.feedPartitions), logWritten, written.Load())
	for partition := range feed {
		if !slices.Contains(v.feedPartitions, partition) {
			v.o.Logger.Warn("a partition of the feed is not read here: byline views repair removes it", logPartition,
				partition)
		}
	}
	return nil
}
