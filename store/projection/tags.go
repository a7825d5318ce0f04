package projection

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// The counts of tags are approximate. A processor writes an entry first, and then changes the count. If the process
// stops in between, the count stays wrong: when the change is handled again, the entry is already there, and is not
// counted. Verify counts the entries, and repair corrects the counts.

// topTags are the tags whose counts have changed since the list of the most used tags was last written.
type topTags struct {
	mu   sync.Mutex
	some map[blog.Timeline]bool // guarded by mu
	wake chan struct{}          // has a value if there are some
}

func newTopTags() *topTags {
	return &topTags{some: map[blog.Timeline]bool{}, wake: make(chan struct{}, 1)}
}

func (c *topTags) changed(t blog.Timeline) {
	c.mu.Lock()
	c.some[t] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *topTags) take() (some []blog.Timeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.some {
		some = append(some, t)
	}
	clear(c.some)
	return some
}

// runTopTags writes the list of the most used tags after their counts have changed, at most once in an interval, until
// ctx ends, and then once more.
func (v *Views) runTopTags(ctx context.Context) error {
	const last = 5 * time.Second
	for sleep.For(ctx, IdleInterval(v.o.PollInterval)) {
		select {
		case <-ctx.Done():
		case <-v.topTags.wake:
			if err := v.writeTopTags(ctx); err != nil && ctx.Err() == nil {
				v.o.Logger.Warn("most used tags not written yet", logError, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
	defer cancel()
	if err := v.writeTopTags(ctx); err != nil {
		v.o.Logger.Warn("most used tags not written: byline views repair writes them", logError, err)
	}
	return nil
}

// writeTopTags updates the list of the most used tags with the present counts of the changed ones.
func (v *Views) writeTopTags(ctx context.Context) error {
	changed := v.topTags.take()
	if len(changed) == 0 {
		return nil
	}
	err := v.updateTopTags(ctx, changed)
	if err != nil {
		for _, t := range changed {
			v.topTags.changed(t)
		}
	}
	return err
}

func (v *Views) updateTopTags(ctx context.Context, changed []blog.Timeline) error {
	const op = "write most used tags"
	for range 10 {
		// The list is read before the counts: a process that writes it in between makes this write fail.
		have, err := v.readTopTags(ctx, op)
		if err != nil {
			return err
		}
		counts := map[string]int64{}
		if have != nil {
			for _, c := range have.Tags {
				counts[c.Name] = c.Posts
			}
		}
		if err := v.readCounts(ctx, op, changed, counts); err != nil {
			return err
		}
		err = v.replaceTopTags(ctx, have, mostUsed(counts))
		if !cosmos.HasStatus(err, http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound) {
			return stored.Error(op, err)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Err: fmt.Errorf("the list keeps changing")}
}

// readCounts sets the present counts of tags.
func (v *Views) readCounts(ctx context.Context, op string, tags []blog.Timeline, counts map[string]int64) error {
	keys := make([]cosmos.Key, len(tags))
	for i, t := range tags {
		keys[i] = stored.Key(t.Key(), blog.TimelineID)
		name, _ := t.Tag()
		delete(counts, name)
	}
	items, err := v.feed.ReadMany(ctx, keys)
	if err != nil {
		return stored.Error(op, err)
	}
	for _, raw := range items {
		item, err := stored.DecodeTimeline(op, raw)
		if err != nil {
			return err
		}
		t, _ := blog.ParseTimelineKey(item.Type)
		if name, ok := t.Tag(); ok {
			counts[name] = item.Posts
		}
	}
	return nil
}

// readTopTags reads the list of the most used tags; nil if it does not exist.
func (v *Views) readTopTags(ctx context.Context, op string) (*blog.TopTagsItem, error) {
	raw, err := v.feed.ReadPrimary(ctx, stored.Key(blog.TopTagsKey, blog.TopTagsKey))
	if raw == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	var item blog.TopTagsItem
	if err := blog.Unmarshal(raw, &item); err != nil {
		return nil, blog.Malformed(op, blog.TopTagsKey, err)
	}
	return &item, nil
}

// replaceTopTags writes the list of the most used tags, unless it has changed since it was read.
func (v *Views) replaceTopTags(ctx context.Context, have *blog.TopTagsItem, tags []blog.TagCount) error {
	if have == nil {
		first := blog.TopTagsItem{Envelope: blog.Envelope{Type: blog.TopTagsKey}, ID: blog.TopTagsKey, Tags: tags}
		return v.feed.Create(ctx, first.Type, blog.Encode(first))
	}
	if slices.Equal(have.Tags, tags) {
		return nil
	}
	p := cosmos.Patch{IfMatch: cosmos.ETag(have.ETag)}
	p.Set("/tags", tags)
	_, err := v.feed.Patch(ctx, stored.Key(blog.TopTagsKey, blog.TopTagsKey), p)
	return err
}

// mostUsed returns the tags with posts, those with the most first, at most blog.MaxTopTags.
func mostUsed(counts map[string]int64) []blog.TagCount {
	all := []blog.TagCount{}
	for name, posts := range counts {
		if posts > 0 {
			all = append(all, blog.TagCount{Name: name, Posts: posts})
		}
	}
	slices.SortFunc(all, func(a, b blog.TagCount) int {
		return cmp.Or(cmp.Compare(b.Posts, a.Posts), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), blog.MaxTopTags)]
}

// theTopTags is the possible difference of the list of the most used tags.
var theTopTags = Difference{Kind: TopTags, Partition: blog.TopTagsKey, ID: blog.TopTagsKey}

// mostUsedTags is the view of the most used tags. Its sources are the counts of tags.
func (v *Views) mostUsedTags() view {
	return view{
		kind:    TopTags,
		scanned: func(context.Context, *verifier) ([]Difference, error) { return []Difference{theTopTags}, nil },
		compare: v.compareTopTags,
		repair: func(ctx context.Context, _ Difference) error {
			have, want, err := v.readMostUsed(ctx)
			if err != nil {
				return err
			}
			return v.replaceTopTags(ctx, have, want)
		},
	}
}

// readMostUsed reads the list of the most used tags, nil if it does not exist, and the counts that it should have.
func (v *Views) readMostUsed(ctx context.Context) (have *blog.TopTagsItem, want []blog.TagCount, err error) {
	const op = "verify"
	if have, err = v.readTopTags(ctx, op); err != nil {
		return nil, nil, err
	}
	q := cosmos.Query{AllPartitions: true, Text: "SELECT c.type, c.posts FROM c WHERE STARTSWITH(c.type, @prefix)"}
	items, err := readPages[blog.TimelineItem](ctx, op, v.feed, q.With("@prefix", blog.TagTimeline("").Key()))
	counts := map[string]int64{}
	for _, item := range items {
		t, _ := blog.ParseTimelineKey(item.Type)
		if name, ok := t.Tag(); ok {
			counts[name] = item.Posts
		}
	}
	return have, mostUsed(counts), err
}

func (v *Views) compareTopTags(ctx context.Context, d Difference) (*Difference, error) {
	have, want, err := v.readMostUsed(ctx)
	if err != nil {
		return nil, err
	}
	var tags []blog.TagCount
	if have != nil {
		tags = have.Tags
	}
	if slices.Equal(tags, want) {
		return nil, nil
	}
	d.Have, d.Want = fmt.Sprint(tags), fmt.Sprint(want)
	return &d, nil
}
