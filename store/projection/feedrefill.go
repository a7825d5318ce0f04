package projection

import (
	"context"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

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
