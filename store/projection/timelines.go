package projection

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
)

// The timelines are the view of posts by date: of all posts, and of those with each tag. An entry is created once and
// deleted once, so likes and comments need no write. A process caches the versions of posts whose entries it has seen,
// so they mostly need no read either. The writer of a post creates and deletes its entries at once; the projections
// find them done.
//
// The handler of a change creates the entries of a post, and deletes those of its former tags. The entries of a deleted
// post are deleted by its writer, and by the job that deletes the rest of it; readers skip them until then.
//
// A process that was paused may create or delete an entry after another has handled a newer version of the post. So the
// handler then reads the post again, from the primary replica, and undoes what does not fit the newer version. If it is
// killed before, the next owner of the range compares the entries, also of versions that it has cached.

// timelineView is the view of the entries of posts in timelines; see entries.go.
type timelineView struct {
	*base
	entries  timelineEntries
	items    *timelineItemView
	versions *entryVersions
}

func newTimelineView(b *base, s *sums, i *timelineItemView) *timelineView {
	versions, _ := lru.New[string, int32](maxVersions) // fails only for sizes below 1
	return &timelineView{base: b, entries: timelineEntries{b, s}, items: i, versions: versions}
}

// maxVersions is the size of entryVersions: the posts that were handled last.
const maxVersions = 1 << 16

// entryVersions are the versions of posts whose entries this process has seen or written, by post.
type entryVersions = lru.Cache[string, int32]

func (t *timelineView) kind() Kind { return TimelineEntry }

// project applies changes of posts.
func (t *timelineView) project(ctx context.Context, c postChanges) error {
	return t.write(ctx, c.posts, false)
}

// update updates the timelines of a post that was just written, so that its writer sees its tags and the counts at
// once. It takes no longer than wait. The requests are those of the projections, which would make them otherwise.
func (t *timelineView) update(ctx context.Context, p *blog.Post, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(cosmos.Apart(ctx, ProjectPosts), wait)
	defer cancel()
	if p.Tombstone {
		t.versions.Remove(p.ID)
		return t.entries.delete(ctx, allEntryKeys(p))
	}
	return t.write(ctx, map[string]*blog.Post{p.ID: p}, true)
}

// write creates the missing entries of changed posts, deletes those of their former tags, and adds up the
// counts. If fresh is true, posts of the first revision probably have no entries yet.
func (t *timelineView) write(ctx context.Context, posts map[string]*blog.Post, fresh bool) error {
	var unsure, changed []*blog.Post
	var create []blog.EntryItem
	for _, p := range posts {
		if p.Tombstone {
			t.versions.Remove(p.ID)
			continue
		}
		if t.isWritten(ctx, p) {
			continue
		}
		changed = append(changed, p)
		if p.Revision == 1 && fresh {
			create = append(create, entriesOf(p)...)
		} else {
			unsure = append(unsure, p)
		}
	}
	missing, former, err := t.entries.compare(ctx, unsure)
	if err != nil {
		return err
	}
	if err := t.writeEntries(ctx, posts, append(create, missing...), former); err != nil {
		return err
	}
	groups := make([][]monthKey, len(changed)) // also of entries that existed: who wrote them may have been killed then
	for i, p := range changed {
		groups[i] = monthsOf(allEntryKeys(p))
	}
	if err := t.entries.sums.add(ctx, groups); err != nil {
		return err
	}
	for _, p := range changed {
		t.versions.Add(p.ID, p.Version)
	}
	return nil
}

// isWritten reports whether this process has cached the version of a post, and no other can have changed the entries
// since and been killed.
func (t *timelineView) isWritten(ctx context.Context, p *blog.Post) bool {
	version, ok := t.versions.Get(p.ID)
	return ok && version == p.Version && !changefeed.Repeated(ctx) && !changefeed.Replaying(ctx)
}

// writeEntries creates and deletes entries of posts, and then undoes what does not fit the posts' latest versions.
func (t *timelineView) writeEntries(
	ctx context.Context, posts map[string]*blog.Post, create []blog.EntryItem, remove []entryKey,
) error {
	for len(create)+len(remove) > 0 {
		if err := t.entries.create(ctx, create); err != nil {
			return err
		}
		var created []entryKey
		for _, e := range create {
			timeline, month, _ := blog.ParseEntryPartition(e.Type)
			created = append(created, entryKey{monthKey{timeline, month}, e.ID})
		}
		_, unwanted, err := t.compareLatest(ctx, posts, created)
		if err != nil {
			return err
		}
		remove = append(remove, unwanted...)
		if err := t.entries.removeAll(ctx, remove); err != nil {
			return err
		}
		if create, _, err = t.compareLatest(ctx, posts, remove); err != nil {
			return err
		}
		remove = nil
	}
	return nil
}

// compareLatest reads the posts of entries, and returns the entries that their latest versions have and those that they
// do not have.
func (t *timelineView) compareLatest(
	ctx context.Context, posts map[string]*blog.Post, keys []entryKey,
) (wanted []blog.EntryItem, unwanted []entryKey, err error) {
	read := map[string]*blog.Post{}
	for _, k := range keys {
		read[k.id] = posts[k.id]
	}
	now, err := t.latest(ctx, slices.Collect(maps.Values(read)))
	if err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		if p := now[k.id]; p != nil && !p.Tombstone && slices.Contains(p.Timelines(), k.timeline) {
			wanted = append(wanted, blog.NewEntry(p, k.timeline))
		} else {
			unwanted = append(unwanted, k)
		}
	}
	return wanted, unwanted, nil
}

// latest reads posts from the primary replica, by id. Those that cannot be read are as they were.
func (t *timelineView) latest(ctx context.Context, posts []*blog.Post) (map[string]*blog.Post, error) {
	const op = "read changed post"
	var mu sync.Mutex
	now := map[string]*blog.Post{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, p := range posts {
		g.Go(func() error {
			raw, err := t.posts.ReadPrimary(ctx, stored.Key(p.ID, p.ID))
			if err != nil {
				return stored.Error(op, err)
			}
			var have *blog.Post
			if raw != nil {
				if have, err = blog.DecodePostOrTombstone(op, raw); err != nil {
					have = p
				}
			}
			mu.Lock()
			defer mu.Unlock()
			now[p.ID] = have
			return nil
		})
	}
	return now, g.Wait()
}

// suspects lists the entries that are wrong or missing, and the items and counters that do not match the entries: one
// query reads them all.
func (t *timelineView) suspects(ctx context.Context, s *scan) ([]Difference, error) {
	found := map[string]int{} // right entries, by post
	check := func(entries []blog.EntryItem) (wrong []Difference, _ error) {
		for _, e := range entries {
			if p := s.posts[e.ID]; p != nil && p.exists && !p.deleted && slices.Contains(entriesOf(postOf(p)), e) {
				found[e.ID]++
			} else {
				wrong = append(wrong, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
			}
		}
		return wrong, nil
	}
	read, err := t.items.scan(ctx, check)
	if err != nil {
		return nil, err
	}
	suspects := append(read.suspects, read.suspectItems()...)
	for id, p := range s.posts {
		if !p.exists || p.deleted {
			continue
		}
		if all := entriesOf(postOf(p)); found[id] != len(all) {
			for _, e := range all {
				suspects = append(suspects, Difference{Kind: TimelineEntry, Partition: e.Type, ID: id})
			}
		}
	}
	return suspects, nil
}

// postOf returns what entries depend on of a post.
func postOf(p *postScan) *blog.Post {
	return &blog.Post{ID: p.entry.ID, Byline: blog.Byline{UserID: p.author}, CreatedAt: p.entry.CreatedAt, Tags: p.tags}
}

// readSuspects lists, without a scan, the entries that no post has, and the items of timelines
// that are wrong.
func (t *timelineView) readSuspects(ctx context.Context) ([]Difference, error) {
	read, err := t.items.scan(ctx, func(entries []blog.EntryItem) (wrong []Difference, _ error) {
		for chunk := range slices.Chunk(entries, 100) {
			ids := make([]string, len(chunk))
			for i, e := range chunk {
				ids[i] = e.ID
			}
			posts, err := stored.ReadPosts(ctx, t.posts, ids, t.decodeAnyPost)
			if err != nil {
				return nil, err
			}
			for i, e := range chunk {
				if p := posts[i]; p == nil || !slices.Contains(entriesOf(p), e) {
					wrong = append(wrong, Difference{Kind: TimelineEntry, Partition: e.Type, ID: e.ID})
				}
			}
		}
		return wrong, nil
	})
	if err != nil {
		return nil, err
	}
	return append(read.suspects, read.suspectItems()...), nil
}

// compare compares an entry with its post.
func (t *timelineView) compare(ctx context.Context, d Difference) (*Difference, error) {
	have, _, author, err := t.entries.read(ctx, d)
	if err != nil {
		return nil, err
	}
	source, err := t.sourceOf(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if want := wantedEntry(source, d.Partition); want != nil {
		d.Want, author = describeEntry(*want), source.UserID
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if deleting, err := t.deletionPending(ctx, d.ID, author); deleting || err != nil {
		return nil, err
	}
	return &d, nil
}

// repair creates, replaces or deletes an entry.
func (t *timelineView) repair(ctx context.Context, d Difference) error {
	have, item, _, err := t.entries.read(ctx, d)
	if err != nil {
		return err
	}
	source, err := t.sourceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	want := wantedEntry(source, d.Partition)
	timeline, month, ok := blog.ParseEntryPartition(d.Partition)
	switch {
	case want != nil && have == absent:
		err = t.entries.create(ctx, []blog.EntryItem{*want})
	case want != nil:
		return stored.Replace(ctx, t.feed, stored.Key(d.Partition, d.ID), item, want)
	case have != absent && ok:
		err = t.entries.remove(ctx, d.Partition, d.ID, item.ETag)
	case have != absent:
		return t.feed.Delete(ctx, stored.Key(d.Partition, d.ID), item.ETag)
	}
	if err != nil || !ok {
		return err
	}
	return t.entries.sums.add(ctx, [][]monthKey{{{timeline, month}}})
}
