package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// The entries of each month of a timeline are counted by a counter in their partition. It changes in the transactional
// batches that create and delete entries, so a change that is handled again counts nothing. The item of a timeline has
// a copy of the counters that are not 0, by month, and their sum. By the sums one query finds the most used tags. The
// counter of the newest month of all posts, which each new post changes, is copied only when a newer month begins.
//
// A process that has changed a counter copies it: it reads the item, then the counter, and writes the item if they
// differ. If another process has written the item since it was read, that write fails, and both are read again. After
// the write, which another process may have overtaken by a change of the counter, the counter is read again. So the
// last of all reads of a counter finds its last value, and an item that has it. A process that is killed in between
// was doing a change or a job that is done again, or was writing a post, which a handler checks. Only the process that
// writes the first post of a month is not checked: if another counts a post of the month before between its two reads
// of that counter, and it is killed before the second, the total lacks that post until a repair.

// monthKey is a month of a timeline: a partition of entries with a counter.
type monthKey struct {
	timeline blog.Timeline
	month    string
}

func (k monthKey) partition() string { return k.timeline.Partition(k.month) }

// patchCounter returns the patch that adds entries to a counter.
func patchCounter(entries int64) (p cosmos.Patch) {
	p.Increment("/posts", entries)
	return p
}

// timelineCounters are the counters of timelines, and their copies in the items of the timelines.
type timelineCounters struct{ *base }

// copyMonths copies the counters of months to the items of timelines, in one transactional batch.
func (c timelineCounters) copyMonths(ctx context.Context, months map[monthKey]bool) error {
	if len(months) == 0 {
		return nil
	}
	all := slices.SortedFunc(maps.Keys(months), func(a, b monthKey) int {
		return strings.Compare(a.partition(), b.partition())
	})
	for try := range 20 {
		if try > 1 && !sleep.For(ctx, rand.N(time.Duration(try)*10*time.Millisecond)) {
			return ctx.Err()
		}
		items, err := c.readTimelines(ctx, all)
		if err != nil {
			return err
		}
		all = withFormerNewest(items, all)
		keys := copiedMonths(items, all)
		counters, err := c.readCounters(ctx, keys)
		if err != nil {
			return err
		}
		b, err := copyCounters(items, counters)
		if err != nil {
			return err
		}
		if b == nil {
			return c.deleteZeros(ctx, counters)
		}
		r, err := c.feed.Batch(ctx, blog.TimelinesKey, b)
		if err != nil {
			return err
		}
		if r.Failed >= 0 { // another process was faster
			continue
		}
		again, err := c.readCounters(ctx, keys)
		if err != nil {
			return err
		}
		if maps.EqualFunc(counters, again, func(a, b blog.CounterItem) bool { return a.Posts == b.Posts }) {
			return c.deleteZeros(ctx, again)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: "add up counts", Err: fmt.Errorf("%s keeps changing", all[0].timeline)}
}

// storedTimeline is the item of a timeline as read; raw is nil if it does not exist.
type storedTimeline struct {
	blog.TimelineItem
	raw []byte
}

// readTimelines reads the items of timelines where writes are executed, without those of a later version. A malformed
// one has the months of its counters.
func (c timelineCounters) readTimelines(
	ctx context.Context, keys []monthKey,
) (map[blog.Timeline]*storedTimeline, error) {
	items := map[blog.Timeline]*storedTimeline{}
	for _, k := range keys {
		items[k.timeline] = &storedTimeline{TimelineItem: blog.NewTimelineItem(k.timeline)}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for t, item := range items {
		g.Go(func() (err error) {
			if item.raw, err = c.feed.ReadPrimary(gctx, stored.TimelineKey(t)); item.raw == nil || err != nil {
				return err
			}
			read, err := stored.DecodeTimeline("read timeline", item.raw)
			if err == nil {
				item.TimelineItem = *read
				return nil
			}
			c.skip(c.feed.Name(), item.raw, err)
			if itemjson.IsLater(item.raw) {
				return nil
			}
			return c.restoreTimeline(gctx, t, item)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(items, func(_ blog.Timeline, i *storedTimeline) bool { return itemjson.IsLater(i.raw) })
	return items, nil
}

// malformedSum is what a malformed item has as its sum, which no sum is.
const malformedSum = -1

// restoreTimeline sets the months of a malformed item from all counters of its timeline.
func (c timelineCounters) restoreTimeline(ctx context.Context, t blog.Timeline, item *storedTimeline) error {
	var known struct {
		Full json.RawMessage `json:"full"`
	}
	_ = json.Unmarshal(item.raw, &known) // every item is an object
	item.ETag, item.Posts, item.Full = string(stored.ETagOf(item.raw)), malformedSum, string(known.Full) == "true"
	counters, err := readPages[json.RawMessage](ctx, "read counters", c.feed, cosmos.Query{AllPartitions: true,
		Text: "SELECT c.type, c.id, c.posts FROM c WHERE STARTSWITH(c.type, @prefix) AND c.id = @counter"}.
		With("@prefix", t.Partition("")).With("@counter", blog.CounterID))
	if err != nil {
		return err
	}
	for _, raw := range counters {
		var counter blog.CounterItem
		if json.Unmarshal(raw, &counter) != nil {
			continue // verify reports it
		}
		if of, month, ok := blog.ParseEntryPartition(counter.Type); ok && of == t && counter.Posts > 0 {
			item.Months[month] = counter.Posts
		}
	}
	return nil
}

// readCounters reads counters where writes are executed. One that does not exist is 0, without an ETag.
func (c timelineCounters) readCounters(ctx context.Context, keys []monthKey) (map[monthKey]blog.CounterItem, error) {
	var mu sync.Mutex
	counters := map[monthKey]blog.CounterItem{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, k := range keys {
		g.Go(func() error {
			var item blog.CounterItem
			raw, err := c.feed.ReadPrimary(ctx, stored.Key(k.partition(), blog.CounterID))
			if err != nil {
				return err
			}
			if raw != nil {
				if err := blog.Unmarshal(raw, &item); err != nil {
					c.skip(c.feed.Name(), raw, err) // verify reports it
					return nil
				}
			}
			mu.Lock()
			defer mu.Unlock()
			counters[k] = item
			return nil
		})
	}
	return counters, g.Wait()
}

// withFormerNewest adds what was the newest month of all posts if a newer one begins.
func withFormerNewest(items map[blog.Timeline]*storedTimeline, months []monthKey) []monthKey {
	if newest, begins := newestOfAll(items, months); begins && newest.month != "" && !slices.Contains(months, newest) {
		months = append(months, newest)
	}
	return months
}

// copiedMonths returns the months whose counters are copied: without the newest month of all posts.
func copiedMonths(items map[blog.Timeline]*storedTimeline, months []monthKey) []monthKey {
	newest, begins := newestOfAll(items, months)
	if begins {
		return months
	}
	return slices.DeleteFunc(slices.Clone(months), func(k monthKey) bool { return k == newest })
}

// newestOfAll returns the newest month of all posts that their item has, and whether one of the months is newer.
func newestOfAll(items map[blog.Timeline]*storedTimeline, months []monthKey) (newest monthKey, begins bool) {
	all := items[blog.AllPosts]
	if all == nil {
		return newest, false
	}
	newest = monthKey{blog.AllPosts, all.Uncopied()}
	return newest, slices.ContainsFunc(months, func(k monthKey) bool {
		return k.timeline == blog.AllPosts && k.month > newest.month
	})
}

// copyCounters returns the batch that copies counters to the items of timelines, nil if they have them.
func copyCounters(
	items map[blog.Timeline]*storedTimeline, counters map[monthKey]blog.CounterItem,
) (*cosmos.Batch, error) {
	b, changed := &cosmos.Batch{NoItems: true}, false
	for _, t := range slices.Sorted(maps.Keys(items)) {
		months, uncopied, newest := map[string]int64{}, items[t].Uncopied(), ""
		maps.Copy(months, items[t].Months)
		for k, c := range counters {
			if k.timeline == t {
				months[k.month] = c.Posts
				newest = max(newest, k.month)
			}
		}
		if _, read := counters[monthKey{t, uncopied}]; uncopied != "" && uncopied < newest && !read {
			continue // the counter is malformed: the month stays in the item until a repair
		}
		if !items[t].Count(months) {
			continue
		}
		if err := writeTimeline(b, t, items[t]); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return nil, nil
	}
	return b, nil
}

// writeTimeline adds the write of the item of a timeline to a batch. A tag without posts has no item.
func writeTimeline(b *cosmos.Batch, t blog.Timeline, item *storedTimeline) error {
	next, etag := item.TimelineItem, cosmos.ETag(item.ETag)
	next.ETag = ""
	_, tagged := t.Tag()
	switch {
	case item.raw == nil:
		b.Create(blog.Encode(next))
	case tagged && len(next.Months) == 0:
		b.DeleteIf(string(t), etag)
	default:
		raw, err := itemjson.EncodeOver(next, item.raw)
		if err != nil {
			return err
		}
		b.ReplaceIf(string(t), raw, etag)
	}
	return nil
}

// deleteZeros deletes counters of months without entries, unless they have changed.
func (c timelineCounters) deleteZeros(ctx context.Context, counters map[monthKey]blog.CounterItem) error {
	for k, item := range counters {
		if item.Posts != 0 || item.ETag == "" {
			continue
		}
		err := c.feed.Delete(ctx, stored.Key(k.partition(), blog.CounterID), cosmos.ETag(item.ETag))
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
			return err
		}
	}
	return nil
}

// sums adds up counters. One caller at a time writes, for all that wait, so that a process does not compete with
// itself for the items.
type sums struct {
	*base
	counters timelineCounters
	idle     chan struct{} // has a value while no caller writes

	mu      sync.Mutex
	waiting []*addition // guarded by mu
}

// addition is the months that one caller waits for.
type addition struct {
	groups [][]monthKey // not yet added up; of the caller that writes
}

func newSums(b *base) *sums {
	s := &sums{base: b, counters: timelineCounters{b}, idle: make(chan struct{}, 1)}
	s.idle <- struct{}{}
	return s
}

// add copies the counters of months to the items of their timelines. Those of a group, such as the tags of a post,
// change together. If ctx has a deadline, a batch that has begun may end up to sumsTimeout later.
func (s *sums) add(ctx context.Context, groups [][]monthKey) error {
	if len(groups) == 0 {
		return nil
	}
	mine := &addition{groups: groups}
	s.mu.Lock()
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	defer s.leave(mine)
	select {
	case <-ctx.Done():
		return stored.Error("add up counts", ctx.Err())
	case <-s.idle:
	}
	done, err := len(mine.groups) == 0, error(nil)
	if !done {
		err = s.addWaiting(ctx, mine)
	}
	s.idle <- struct{}{}
	if done && cosmos.SessionFrom(ctx) != nil {
		// The session learns of a write that another caller has made.
		_, err = s.feed.ReadPrimary(ctx, stored.TimelineKey(blog.AllPosts))
	}
	return stored.Error("add up counts", err)
}

// leave removes an addition, whether it is done or not.
func (s *sums) leave(a *addition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(b *addition) bool { return a == b })
}

// sumsTimeout limits a batch for a caller with a deadline.
const sumsTimeout = 3 * time.Second

// addWaiting does mine, and what other callers wait for as far as batches have space for it.
func (s *sums) addWaiting(ctx context.Context, mine *addition) error {
	alone := false // others' additions may have failed
	for len(mine.groups) > 0 {
		additions := []*addition{mine}
		if !alone {
			s.mu.Lock()
			for _, a := range s.waiting {
				if a != mine {
					additions = append(additions, a)
				}
			}
			s.mu.Unlock()
		}
		months, taken := nextBatch(additions)
		if err := s.addBatch(ctx, months); err != nil {
			if len(taken) == 1 || ctx.Err() != nil {
				return err
			}
			alone = true
			continue
		}
		for a, n := range taken {
			a.groups = a.groups[n:]
		}
	}
	return nil
}

// nextBatch returns the months of as many groups as one transactional batch can write, and how many of each addition.
func nextBatch(additions []*addition) (months map[monthKey]bool, taken map[*addition]int) {
	months, taken = map[monthKey]bool{}, map[*addition]int{}
	timelines := map[blog.Timeline]bool{}
	for _, a := range additions {
		for _, group := range a.groups {
			more := map[blog.Timeline]bool{}
			for _, m := range group {
				if !timelines[m.timeline] {
					more[m.timeline] = true
				}
			}
			if len(timelines) > 0 && len(timelines)+len(more) > cosmos.MaxBatch {
				return months, taken
			}
			for _, m := range group {
				months[m], timelines[m.timeline] = true, true
			}
			taken[a]++
		}
	}
	return months, taken
}

// addBatch copies the counters of months. If ctx has a deadline, the batch has a deadline of its own: the rest of the
// caller's may be too short, and the next caller's likewise.
func (s *sums) addBatch(ctx context.Context, months map[monthKey]bool) error {
	if _, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), sumsTimeout)
		defer cancel()
	}
	return s.counters.copyMonths(ctx, months)
}
