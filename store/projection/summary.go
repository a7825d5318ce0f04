package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
)

// summaryView is the view of the summaries of posts in their authors' partitions.
type summaryView struct{ *base }

func (s *summaryView) kind() Kind { return Summary }

func (s *summaryView) suspects(_ context.Context, read *scan) (found []Difference, _ error) {
	for id, p := range read.posts {
		if p.exists && !p.deleted && read.summaries[summaryKey{p.author, id}] != p.short {
			found = append(found, Difference{Kind: Summary, Partition: p.author, ID: id})
		}
	}
	for k := range read.summaries {
		if p := read.posts[k.post]; p == nil || !p.exists || p.deleted || p.author != k.author {
			found = append(found, Difference{Kind: Summary, Partition: k.author, ID: k.post})
		}
	}
	return found, nil
}

func (s *summaryView) compare(ctx context.Context, d Difference) (*Difference, error) {
	return s.compareIn(ctx, s.users, d)
}

func (s *summaryView) repair(ctx context.Context, d Difference) error {
	return s.repairIn(ctx, s.users, d)
}

// WriteSummary creates or updates the summary of a post in a partition of the users or feed
// container, unless it has the same or a newer revision.
func WriteSummary(ctx context.Context, c *cosmos.Container, partition string, p *blog.Post) (err error) {
	absent := p.Revision == 1 // a guess, which the response may correct
	for range 10 {
		if absent {
			err = c.Create(ctx, partition, encodeSummary(p, c, partition))
			if !cosmos.HasStatus(err, http.StatusConflict) {
				return stored.Error("create summary", err)
			}
		} else {
			err = updateSummary(ctx, c, partition, p)
			if !cosmos.HasStatus(err, http.StatusNotFound) {
				return stored.Error("update summary", err)
			}
		}
		absent = !absent
	}
	return &blog.Error{Code: blog.Conflict, Op: "write summary", Err: err}
}

// summariesPerBatch is the most summaries in one transactional batch, which is retried one by
// one if an operation fails.
const summariesPerBatch = 25

// writeEach writes summaries one by one. It skips those that Cosmos DB refuses.
func (s *summaryView) writeEach(
	ctx context.Context, c *cosmos.Container, partition string, posts ...*blog.Post,
) error {
	for _, p := range posts {
		err := WriteSummary(ctx, c, partition, p)
		if refused(err) {
			s.skipID(c.Name(), p.ID, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// write writes summaries in goroutines of g: in batches those that probably differ in counts alone.
func (s *summaryView) write(
	ctx context.Context, g *errgroup.Group, c *cosmos.Container, partition string, posts []*blog.Post,
) {
	var counted []*blog.Post
	for _, p := range posts {
		if sameVersion(ctx, p) {
			counted = append(counted, p)
		} else {
			g.Go(func() error { return s.writeEach(ctx, c, partition, p) })
		}
	}
	for chunk := range slices.Chunk(counted, summariesPerBatch) {
		g.Go(func() error {
			if len(chunk) > 1 {
				if done, err := updateCounts(ctx, c, partition, chunk); done || err != nil && !refused(err) {
					return err
				}
			}
			return s.writeEach(ctx, c, partition, chunk...)
		})
	}
}

// updateCounts updates the counts of summaries in one transactional batch. It reports false,
// and has changed nothing, if one of them is missing, has another text, or is not older.
func updateCounts(ctx context.Context, c *cosmos.Container, partition string, posts []*blog.Post) (bool, error) {
	b := cosmos.Batch{NoItems: true}
	for _, p := range posts {
		b.Patch(p.ID, patchUnversioned(p))
	}
	r, err := c.Batch(ctx, partition, &b)
	return err == nil && r.Failed < 0, stored.Error("update summaries", err)
}

// updateSummary updates a summary if it is older than the post. The error of a missing summary
// has status 404.
func updateSummary(ctx context.Context, c *cosmos.Container, partition string, p *blog.Post) error {
	if p.Tombstone {
		return replaceSummary(ctx, c, partition, p)
	}
	if sameVersion(ctx, p) {
		_, err := c.Patch(ctx, stored.Key(partition, p.ID), patchUnversioned(p))
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed) {
			return err
		}
	}
	return replaceSummary(ctx, c, partition, p)
}

// replaceSummary replaces the summary of a post if it is older: by its tombstone if the post was deleted. The error of
// a missing summary has status 404.
func replaceSummary(ctx context.Context, c *cosmos.Container, partition string, p *blog.Post) error {
	for {
		_, revision, item, err := readSummary(ctx, c, partition, p.ID)
		switch {
		case err != nil:
			return err
		case item.Value == nil:
			return &cosmos.Error{Status: http.StatusNotFound, Err: errors.New("the summary does not exist")}
		case revision >= p.Revision:
			return nil
		}
		err = replaceSummaryItem(ctx, c, partition, p, item)
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed) || ctx.Err() != nil {
			return err
		}
	}
}

// replaceSummaryItem replaces the item of a summary, as read, by the summary or tombstone of a post.
func replaceSummaryItem(
	ctx context.Context, c *cosmos.Container, partition string, p *blog.Post, item cosmos.Item,
) error {
	k := stored.Key(partition, p.ID)
	if p.Tombstone {
		_, err := c.Replace(ctx, k, encodeSummary(p, c, partition), item.ETag)
		return err
	}
	return stored.Replace(ctx, c, k, item, summaryIn(p, c, partition))
}

// sameVersion guesses whether a summary that is older than the post has the post's version, and so differs in its
// counts alone. An edit raises revision and version, a like or comment only the revision: after one of those the
// revision is greater. During a replay every summary is guessed to be of another version, since it may be damaged.
// A wrong guess costs a patch that is refused.
func sameVersion(ctx context.Context, p *blog.Post) bool {
	return !p.Tombstone && p.Revision > int64(p.Version) && !changefeed.Replaying(ctx)
}

// patchUnversioned returns the patch of an older summary with the same text, of the counts and the byline. The summary
// must not have a property of a byline which the post has not: a patch cannot remove one unless it is known to be
// there.
func patchUnversioned(p *blog.Post) (o cosmos.Patch) {
	o.Condition = fmt.Sprintf("from c where c.revision < %d AND c.version = %d", p.Revision, p.Version)
	o.Set("/revision", p.Revision)
	for property := range p.Byline.Properties() {
		if property.Value == "" {
			o.Condition += " AND NOT IS_DEFINED(c." + property.Name + ")"
		} else {
			o.Set("/"+property.Name, property.Value)
		}
	}
	o.Set("/commentCount", p.CommentCount)
	o.Set("/likeCount", p.LikeCount)
	return o
}

// project writes the summaries of posts in their authors' partitions.
func (s *summaryView) project(ctx context.Context, c postChanges) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	var authored []*blog.Post
	byAuthor := map[string][]*blog.Post{}
	for _, p := range c.posts {
		if !p.Erased() {
			authored = append(authored, p)
		}
	}
	older, err := outdated(ctx, s.users, authored, func(p *blog.Post) string { return p.UserID })
	if err != nil {
		return err
	}
	for _, p := range older {
		byAuthor[p.UserID] = append(byAuthor[p.UserID], p)
	}
	for author, posts := range byAuthor {
		s.write(gctx, g, s.users, author, posts)
	}
	return g.Wait()
}

// encodeSummary encodes the item of a post in a partition: its summary, or its tombstone.
func encodeSummary(p *blog.Post, c *cosmos.Container, partition string) []byte {
	if !p.Tombstone {
		return blog.Encode(summaryIn(p, c, partition))
	}
	item := blog.NewPostTombstone(p)
	item.Type, item.TTL = blog.TombstoneType(typeIn(c, partition)), blog.ViewTombstoneTTL
	if c.Name() == blog.FeedContainer {
		item.Type, item.CreatedAt = partition, ""
	}
	return blog.Encode(item)
}

// summaryIn returns the summary of a post as an item in a partition.
func summaryIn(p *blog.Post, c *cosmos.Container, partition string) blog.SummaryItem {
	item := p.Summary()
	item.Type = typeIn(c, partition)
	return item
}

// typeIn returns the type of the summaries in a partition. In the feed it is the partition
// key.
func typeIn(c *cosmos.Container, partition string) string {
	if c.Name() == blog.FeedContainer {
		return partition
	}
	return blog.TypePost
}

// outdated returns the posts whose summaries are missing or older. It reads the summaries only if the
// changes may be repeated: one request for each partition key range then replaces a conditional write,
// which would fail, for each summary.
func outdated(
	ctx context.Context, c *cosmos.Container, posts []*blog.Post, partition func(*blog.Post) string,
) ([]*blog.Post, error) {
	if len(posts) < 2 || !changefeed.Repeated(ctx) || changefeed.Replaying(ctx) {
		return posts, nil
	}
	keys := make([]cosmos.Key, len(posts))
	for i, p := range posts {
		keys[i] = stored.Key(partition(p), p.ID)
	}
	items, err := c.ReadMany(ctx, keys)
	if err != nil {
		return nil, stored.Error("read summaries", err)
	}
	revisions := map[string]int64{}
	for _, raw := range items {
		var item struct {
			ID       string
			Revision int64
		}
		if json.Unmarshal(raw, &item) == nil { // malformed summaries are overwritten
			revisions[item.ID] = item.Revision
		}
	}
	var older []*blog.Post
	for _, p := range posts {
		if revisions[p.ID] < p.Revision {
			older = append(older, p)
		}
	}
	return older, nil
}

// compareIn compares a summary in a container.
func (s *summaryView) compareIn(ctx context.Context, c *cosmos.Container, d Difference) (*Difference, error) {
	have, revision, _, err := readSummary(ctx, c, d.Partition, d.ID)
	if err != nil {
		return nil, err
	}
	source, err := s.sourceOf(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if s.belongs(source, c, d.Partition) && !source.Tombstone {
		d.Want = describeSummary(summaryIn(source, c, d.Partition))
		if d.revision == 0 {
			d.revision = source.Revision
		} else if d.revision <= revision && revision < source.Revision {
			return nil, nil // updated since, and the next update is under way
		}
	}
	if d.Have == d.Want {
		return nil, nil
	}
	author := d.Partition
	if c == s.feed {
		if author = ""; source != nil {
			author = source.UserID
		}
	}
	if state, err := s.stateOf(ctx, author); state == deletedUser || err != nil {
		return nil, err
	}
	return &d, nil
}

// readSummary returns a digest of a summary, its revision, and the item. A tombstone is absent, with its revision.
func readSummary(
	ctx context.Context, c *cosmos.Container, partition, id string,
) (have string, revision int64, r cosmos.Item, err error) {
	r, err = c.Read(ctx, stored.Key(partition, id))
	if err != nil {
		return "", 0, r, stored.Error("verify", err)
	}
	if r.Value == nil {
		return absent, 0, r, nil
	}
	item, ok, err := blog.Decode[blog.SummaryItem]("verify", typeIn(c, partition), r.Value)
	switch {
	case err != nil:
		return unreadable, 0, r, nil
	case !ok:
		return absent, item.Revision, r, nil
	}
	return describeSummary(item), item.Revision, r, nil
}

// belongs reports whether a post has a summary, or its tombstone, in a partition.
func (s *summaryView) belongs(source *blog.Post, c *cosmos.Container, partition string) bool {
	if c == s.feed {
		return source != nil && slices.Contains(s.feedKeys, partition)
	}
	return source != nil && source.UserID == partition
}

// repairIn writes the summary of the source in a container, regardless of the revision of the old one.
func (s *summaryView) repairIn(ctx context.Context, c *cosmos.Container, d Difference) error {
	have, _, item, err := readSummary(ctx, c, d.Partition, d.ID)
	if err != nil {
		return err
	}
	source, err := s.sourceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	switch belongs := s.belongs(source, c, d.Partition); {
	case belongs && item.Value != nil: // also a tombstone, so that late changes do not restore the post
		err = replaceSummaryItem(ctx, c, d.Partition, source, item)
	case belongs && !source.Tombstone:
		err = c.Create(ctx, d.Partition, encodeSummary(source, c, d.Partition))
	case have != absent:
		err = c.Delete(ctx, stored.Key(d.Partition, d.ID), item.ETag)
	}
	return err
}
