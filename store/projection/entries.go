package projection

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// timelineEntries are the entries of timelines. An entry is counted in the transactional batch that creates or deletes
// it: see counters.go.
type timelineEntries struct {
	*base
	sums *sums
}

// entryKey is an entry of a timeline.
type entryKey struct {
	monthKey
	id string
}

// entryKeys returns the entries of a post in timelines.
func entryKeys(p *blog.Post, timelines []blog.Timeline) (keys []entryKey) {
	for _, t := range timelines {
		keys = append(keys, entryKey{monthKey{t, p.CreatedAt.Month()}, p.ID})
	}
	return keys
}

// allEntryKeys returns the entries that a post has, or may have had.
func allEntryKeys(p *blog.Post) []entryKey {
	return entryKeys(p, append(p.Timelines(), p.FormerTimelines()...))
}

// monthsOf returns the months of entries.
func monthsOf(keys []entryKey) (months []monthKey) {
	for _, k := range keys {
		months = append(months, k.monthKey)
	}
	return months
}

// entriesOf returns the entries that a post should have.
func entriesOf(p *blog.Post) (entries []blog.EntryItem) {
	for _, t := range p.Timelines() {
		entries = append(entries, blog.NewEntry(p, t))
	}
	return entries
}

// compare reads the entries of posts, in one request for each partition key range. It returns the missing ones,
// which may exist, and those of former tags that exist. A replica may not have one of these yet, and nobody would
// delete it later, so the primary replica decides whether it exists.
func (e timelineEntries) compare(
	ctx context.Context, posts []*blog.Post,
) (missing []blog.EntryItem, former []entryKey, err error) {
	var keys []cosmos.Key
	for _, p := range posts {
		for _, k := range allEntryKeys(p) {
			keys = append(keys, stored.Key(k.partition(), k.id))
		}
	}
	items, err := e.feed.ReadMany(ctx, keys)
	if err != nil {
		return nil, nil, stored.Error("read entries of timelines", err)
	}
	exists := map[cosmos.Key]bool{}
	for _, raw := range items {
		var item blog.EntryItem
		if err := blog.Unmarshal(raw, &item, blog.Lenient); err == nil {
			exists[stored.Key(item.Type, item.ID)] = true
		}
	}
	var unseen []entryKey
	for _, p := range posts {
		for _, item := range entriesOf(p) {
			if !exists[stored.Key(item.Type, item.ID)] {
				missing = append(missing, item)
			}
		}
		for _, k := range entryKeys(p, p.FormerTimelines()) {
			switch {
			case slices.Contains(p.Timelines(), k.timeline):
			case exists[stored.Key(k.partition(), k.id)]:
				former = append(former, k)
			default:
				unseen = append(unseen, k)
			}
		}
	}
	lagging, err := e.existing(ctx, unseen)
	return missing, append(former, lagging...), stored.Error("read former entries", err)
}

// existing returns the entries that exist on the primary replica.
func (e timelineEntries) existing(ctx context.Context, keys []entryKey) ([]entryKey, error) {
	exists := make([]bool, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, k := range keys {
		g.Go(func() (err error) {
			exists[i], err = e.hasItem(ctx, k.partition(), k.id)
			return err
		})
	}
	err := g.Wait()
	var found []entryKey
	for i, k := range keys {
		if exists[i] {
			found = append(found, k)
		}
	}
	return found, err
}

// create creates entries and counts them. It does not change those that exist.
func (e timelineEntries) create(ctx context.Context, items []blog.EntryItem) error {
	byPartition := map[string][]blog.EntryItem{}
	for _, item := range items {
		byPartition[item.Type] = append(byPartition[item.Type], item)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for partition, items := range byPartition {
		for chunk := range slices.Chunk(items, cosmos.MaxBatch-1) {
			g.Go(func() error { return e.createBatch(ctx, partition, chunk) })
		}
	}
	return g.Wait()
}

// createBatch creates entries of one partition and counts them, in one transactional batch; one by one if some exist.
func (e timelineEntries) createBatch(ctx context.Context, partition string, items []blog.EntryItem) error {
	const op = "create entries"
	counted := true // a guess: the partition has a counter
	for range 10 {
		b := cosmos.Batch{NoItems: true}
		if counted {
			b.Patch(blog.CounterID, patchCounter(int64(len(items))))
		} else {
			b.Create(blog.Encode(blog.CounterItem{Envelope: blog.Envelope{Type: partition}, ID: blog.CounterID,
				Posts: int64(len(items))}))
		}
		for _, item := range items {
			b.Create(blog.Encode(item))
		}
		r, err := e.feed.Batch(ctx, partition, &b)
		switch {
		case err != nil && !refused(err):
			return stored.Error(op, err)
		case err == nil && r.Failed < 0:
			return nil
		case err == nil && r.Failed == 0:
			counted = !counted
			continue
		case len(items) == 1 && err != nil: // the counter may be malformed: verify reports it
			err = e.feed.Create(ctx, partition, blog.Encode(items[0]))
			if refused(err) {
				e.skip(e.feed.Name(), blog.Encode(items[0]), err)
				return nil
			}
			if cosmos.HasStatus(err, http.StatusConflict) {
				return nil
			}
			return stored.Error(op, err)
		case len(items) == 1: // it exists, or did a moment ago
			exists, err := e.hasItem(ctx, partition, items[0].ID)
			if exists || err != nil {
				return stored.Error(op, err)
			}
			continue
		}
		for i := range items {
			if err := e.createBatch(ctx, partition, items[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Err: fmt.Errorf("the counter of %s comes and goes", partition)}
}

// delete deletes entries, which need not exist, and adds up the counts.
func (e timelineEntries) delete(ctx context.Context, keys []entryKey) error {
	if err := e.removeAll(ctx, keys); err != nil {
		return err
	}
	return e.sums.add(ctx, [][]monthKey{monthsOf(keys)})
}

// removeAll deletes entries, which need not exist, and subtracts them from their counters.
func (e timelineEntries) removeAll(ctx context.Context, keys []entryKey) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, k := range keys {
		g.Go(func() error { return stored.Error("delete entry", e.remove(ctx, k.partition(), k.id, "")) })
	}
	return g.Wait()
}

// remove deletes an entry, if it exists and has the ETag unless that is "", and subtracts it from the counter.
func (e timelineEntries) remove(ctx context.Context, partition, id string, etag cosmos.ETag) error {
	for range 10 {
		b := cosmos.Batch{NoItems: true}
		if etag == "" {
			b.Delete(id)
		} else {
			b.DeleteIf(id, etag)
		}
		b.Patch(blog.CounterID, patchCounter(-1))
		r, err := e.feed.Batch(ctx, partition, &b)
		var missing string // what the batch did not find
		switch {
		case refused(err): // the counter is malformed
			return e.removeUncounted(ctx, partition, id, etag)
		case err != nil:
			return err
		case r.Failed < 0:
			return nil
		case r.Status != http.StatusNotFound:
			return r.Err()
		case r.Failed == 0:
			missing = id
		default:
			missing = blog.CounterID
		}
		exists, err := e.hasItem(ctx, partition, missing)
		switch {
		case err != nil:
			return err
		case exists: // by now
		case missing == id:
			return nil
		default:
			return e.removeUncounted(ctx, partition, id, etag)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: "delete entry",
		Err: fmt.Errorf("%s of %s comes and goes", id, partition)}
}

// removeUncounted deletes an entry, if it exists, of a month without a counter.
func (e timelineEntries) removeUncounted(ctx context.Context, partition, id string, etag cosmos.ETag) error {
	err := e.feed.Delete(ctx, stored.Key(partition, id), etag)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// hasItem reports whether an item of the feed exists where writes are executed.
func (e timelineEntries) hasItem(ctx context.Context, partition, id string) (bool, error) {
	raw, err := e.feed.ReadPrimary(ctx, stored.Key(partition, id))
	return raw != nil, err
}

// wantedEntry returns the entry of a post in a partition, nil if there should be none.
func wantedEntry(p *blog.Post, partition string) *blog.EntryItem {
	if p == nil || p.Tombstone {
		return nil
	}
	for _, e := range entriesOf(p) {
		if e.Type == partition {
			return &e
		}
	}
	return nil
}

// read reads an entry, or what is in its place, and the author that it names.
func (e timelineEntries) read(
	ctx context.Context, d Difference,
) (have string, r cosmos.Item, author string, err error) {
	r, err = e.feed.Read(ctx, stored.Key(d.Partition, d.ID))
	if r.Value == nil || err != nil {
		return absent, r, "", stored.Error("verify", err)
	}
	var item blog.EntryItem
	if err := blog.Unmarshal(r.Value, &item); err != nil {
		return unreadable, r, "", nil
	}
	return describeEntry(item), r, item.AuthorID, nil
}

func describeEntry(e blog.EntryItem) string { return fmt.Sprintf("%s by %s", e.CreatedAt, e.AuthorID) }
