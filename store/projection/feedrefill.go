package projection

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

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
