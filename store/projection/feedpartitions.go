package projection

import (
	"cmp"
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

// feedPartitions reads and fills the partitions of the feed.
type feedPartitions struct {
	*base
	registry *registry
}

// feedEntry is the id and the sort key of an entry of the feed.
type feedEntry blog.Entry

func entryOf(p *blog.Post) feedEntry { return feedEntry{ID: p.ID, CreatedAt: p.CreatedAt} }

// newestFirst compares entries in the order of the feed.
func newestFirst(a, b feedEntry) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// entries reads the entries of a partition of the feed, newest first.
func (p *feedPartitions) entries(ctx context.Context, partition string) ([]feedEntry, error) {
	return readEntries(ctx, "read feed", p.feed, cosmos.Query{Partition: partition,
		Text: "SELECT c.id, c.creationDate, c.deleted FROM c WHERE c.type = @partition ORDER BY c.type DESC, " +
			"c.creationDate DESC, c.id DESC",
	}.With("@partition", partition))
}

// readEntries reads all entries that a query yields, malformed ones included.
func readEntries(ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) (entries []feedEntry, err error) {
	placed, err := readPages[placedEntry](ctx, op, c, q)
	for _, e := range placed {
		if e.Deleted == nil {
			entries = append(entries, e.sortKey())
		}
	}
	return entries, err
}

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
			all = append(all, e.sortKey())
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
		if e := e.sortKey(); last.ID == "" || newestFirst(e, last) > 0 {
			last = e
		}
	}
	return last
}

// sortKey returns the entry without its partition.
func (e placedEntry) sortKey() feedEntry {
	return feedEntry{ID: e.ID, CreatedAt: blog.Date(fmt.Sprint(e.CreatedAt))}
}

// isFilled reports whether the feed has exactly these partitions, with the same entries in each. They
// differ after an interrupted fill, or a return to an earlier number of partitions.
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

// read reads the entries of all partitions of the newest posts, including those no longer in use. Conflict if the
// feed has several partitions and Options.FeedPartitions is 0.
func (p *feedPartitions) read(ctx context.Context, c *cosmos.Container) (feedContent, error) {
	const op = "read feed"
	entries, err := readPages[placedEntry](ctx, op, c, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id, c.creationDate, c.revision, c.deleted FROM c WHERE " + newestPosts})
	if err != nil {
		return nil, err
	}
	content := feedContent{}
	for _, e := range entries {
		if e.Deleted != nil {
			continue
		}
		if content[e.Partition] == nil {
			content[e.Partition] = map[string]placedEntry{}
		}
		content[e.Partition][e.ID] = e
	}
	if n := content.partitionCount(); n > 0 && p.o.FeedPartitions == 0 {
		return nil, &blog.Error{Code: blog.Conflict, Op: op, Field: "feedPartitions", Message: fmt.Sprintf(
			"the feed of database %s has %d partitions: use --feed-partitions %[2]d, like the other instances, or "+
				"--feed-partitions 1 to go back to one", p.o.Database, n)}
	}
	return content, nil
}

// fill is Views.FillFeed.
func (p *feedPartitions) fill(ctx context.Context) error {
	const op = "fill feed"
	ctx = cosmos.WithUnlimitedRetries(ctx)
	content, err := p.read(ctx, p.requests.feed)
	if err != nil {
		return err
	}
	if len(content) == 0 || content.isFilled(p.feedKeys) {
		return nil
	}
	var written atomic.Int64
	var orphans []Difference
	for ids := range slices.Chunk(content.newest(), 100) {
		posts, err := stored.ReadPosts(ctx, p.requests.posts, ids, p.decodeAnyPost)
		if err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		for _, partition := range p.feedKeys {
			for i, id := range ids {
				have, exists := content[partition][id]
				revision, _ := have.Revision.(float64)
				switch post := posts[i]; {
				case post == nil && exists:
					orphans = append(orphans, Difference{Kind: FeedEntry, Partition: partition, ID: id})
				case post != nil && int64(revision) < post.Revision:
					g.Go(func() error {
						written.Add(1)
						return WriteSummary(gctx, p.requests.feed, partition, post)
					})
				}
			}
		}
		if err := g.Wait(); err != nil {
			return stored.Error(op, err)
		}
		changed, err := p.changedSince(ctx, p.requests.posts, posts)
		if err != nil {
			return err
		}
		for _, post := range changed {
			for _, partition := range p.feedKeys {
				if err := WriteSummary(ctx, p.requests.feed, partition, post); err != nil {
					return stored.Error(op, err)
				}
			}
		}
	}
	if err := p.registry.repairAll(ctx, orphans); err != nil {
		return err
	}
	p.o.Logger.Info("the feed's partitions are filled", logCount, len(p.feedKeys), logWritten, written.Load())
	for partition := range content {
		if !slices.Contains(p.feedKeys, partition) {
			p.o.Logger.Warn("a partition of the feed is not read here: byline views repair removes it", logPartition,
				partition)
		}
	}
	return nil
}
