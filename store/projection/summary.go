package projection

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// writeCopy writes the short form of a post into a partition of copies, unless a
// newer revision is there.
func WriteSummary(ctx context.Context, c *cosmos.Container, partition string, p *blog.Post) (err error) {
	absent := p.Revision == 1 // what is likely; the answer tells
	for range 10 {
		if absent {
			err = c.Create(ctx, partition, blog.Encode(summaryIn(p, c, partition)))
			if !cosmos.HasStatus(err, http.StatusConflict) {
				return blog.CosmosError("create copy", err)
			}
		} else {
			err = updateSummary(ctx, c, partition, p)
			if !cosmos.HasStatus(err, http.StatusNotFound) {
				return blog.CosmosError("update copy", err)
			}
		}
		absent = !absent
	}
	return &blog.Error{Code: blog.Conflict, Op: "write copy", Err: err}
}

// copiesAtOnce bounds how many copies are brought up to date in one batch, and so how
// many are tried again if one of them is not as expected.
const summariesPerBatch = 25

// writeCopies is writeCopy for several posts, by g.
func writeSummaries(ctx context.Context, g *errgroup.Group, c *cosmos.Container, partition string, posts []*blog.Post) {
	write := func(posts ...*blog.Post) error {
		for _, p := range posts {
			if err := WriteSummary(ctx, c, partition, p); err != nil {
				return err
			}
		}
		return nil
	}
	var counted []*blog.Post
	for _, p := range posts {
		if countsOnly(ctx, p) {
			counted = append(counted, p)
		} else {
			g.Go(func() error { return write(p) })
		}
	}
	for some := range slices.Chunk(counted, summariesPerBatch) {
		g.Go(func() error {
			if len(some) > 1 {
				if done, err := updateCounts(ctx, c, partition, some); done || err != nil {
					return err
				}
			}
			return write(some...)
		})
	}
}

// updateCounts brings copies whose counts alone are old up to date, in one transactional
// batch. It reports false, and has done nothing, if one of them is not such a copy.
func updateCounts(ctx context.Context, c *cosmos.Container, partition string, posts []*blog.Post) (bool, error) {
	b := cosmos.Batch{NoItems: true}
	for _, p := range posts {
		b.Patch(p.ID, patchCounts(p))
	}
	r, err := c.Batch(ctx, partition, &b)
	return err == nil && r.Failed < 0, blog.CosmosError("update copies", err)
}

// updateCopy brings a copy to the post's revision if it is older. A copy that is
// not there is a 404.
func updateSummary(ctx context.Context, c *cosmos.Container, partition string, p *blog.Post) error {
	if countsOnly(ctx, p) {
		_, err := c.Patch(ctx, blog.Key(partition, p.ID), patchCounts(p))
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed) {
			return err
		}
	}
	_, err := c.Patch(ctx, blog.Key(partition, p.ID), patchAll(p))
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return nil // as new, or newer
	}
	return err
}

// countsOnly reports whether it is likely that an older copy differs in its counts alone:
// edits raise the version, too.
func countsOnly(ctx context.Context, p *blog.Post) bool {
	return !p.Tombstone && p.Revision > int64(p.Version) && !changefeed.Replaying(ctx)
}

// patchCounts is a patch of an older copy with the same text.
func patchCounts(p *blog.Post) cosmos.Patch {
	o := patchIfOlder(p, " AND c.version = "+strconv.Itoa(int(p.Version)))
	setCounts(&o, p)
	return o
}

// patchAll is a patch of an older copy.
func patchAll(p *blog.Post) cosmos.Patch {
	o := patchIfOlder(p, "")
	short := p.Summary()
	o.Set("/title", short.Title)
	o.Set("/content", short.Content)
	if short.Deleted {
		o.Set("/deleted", true)
		o.Set("/ttl", short.TTL)
		return o
	}
	setCounts(&o, p)
	o.Set("/truncated", short.Truncated)
	if short.UpdatedAt != nil {
		o.Set("/editDate", *short.UpdatedAt)
	}
	o.Set("/version", short.Version)
	return o
}

func patchIfOlder(p *blog.Post, and string) (o cosmos.Patch) {
	o.Condition = "from c where c.revision < " + strconv.FormatInt(p.Revision, 10) + and
	o.Set("/revision", p.Revision)
	return o
}

// setCounts sets what changes of a post whose text does not.
func setCounts(o *cosmos.Patch, p *blog.Post) {
	o.Set("/userUsername", p.AuthorUsername)
	o.Set("/commentCount", p.CommentCount)
	o.Set("/likeCount", p.LikeCount)
}

// projectCopies writes the copies of the posts.
func (v *Views) projectSummaries(ctx context.Context, posts map[string]*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	var all []*blog.Post
	byAuthor := map[string][]*blog.Post{}
	for _, p := range posts {
		all = append(all, p)
		byAuthor[p.AuthorID] = append(byAuthor[p.AuthorID], p)
	}
	for author, posts := range byAuthor {
		writeSummaries(gctx, g, v.users, author, posts)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return v.ProjectFeed(ctx, all)
}

// projectionWorkers bounds how many copies are written at a time.
const workers = 8

// showNow writes the copies of a post that was just written, so that its author
// sees it at once. Failing is no error of the request: the change feed does the
// same a moment later.
func (v *Views) Show(ctx context.Context, p *blog.Post) {
	var g errgroup.Group
	g.Go(func() error {
		return WriteSummary(ctx, v.requests.users, p.AuthorID, p)
	})
	for _, partition := range v.feedPartitions {
		g.Go(func() error {
			if p.Revision == 1 { // nothing is newer: it belongs into the feed
				return WriteSummary(ctx, v.requests.feed, partition, p)
			}
			err := updateSummary(ctx, v.requests.feed, partition, p)
			if cosmos.HasStatus(err, http.StatusNotFound) {
				return nil // not among the newest
			}
			return err
		})
	}
	if p.Tombstone {
		g.Go(func() error { return cascade(ctx, v.requests.posts, p.ID, 1) })
	}
	if err := g.Wait(); err != nil {
		v.o.Logger.Warn("copies are late", logPost, p.ID, logError, err)
	}
}

// summaryIn returns the summary of a post as a partition of a container holds it.
func summaryIn(p *blog.Post, c *cosmos.Container, partition string) blog.SummaryItem {
	item := p.Summary()
	item.Type = typeIn(c, partition)
	return item
}

// typeOfCopies is the type of the copies in a partition. In the feed, that is the
// partition key.
func typeIn(c *cosmos.Container, partition string) string {
	if c.Name() == blog.FeedContainer {
		return partition
	}
	return blog.TypePost
}
