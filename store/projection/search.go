package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/search"
	"byline/store/stored"
)

// searchView is the view of the items that posts have for full-text search. An item changes with the title, the tags or
// the text of its post only. Its version is one of the post that has these: the latest that the projection has handled.
// A process caches the versions of posts whose items it has seen, so likes and comments need no read.
//
// Every write is conditional on the version. The version rises also if an edit leaves the item's text alone: a process
// that was paused before an edit that has been undone since would write the undone text otherwise. A deleted post has a
// tombstone, which no write changes, so that such a process does not restore the item.
//
// The container may be missing: accounts can lack the capability. Then nothing is written, until it exists.
type searchView struct {
	*base
	versions *entryVersions // at least so new are the items; gone for those of deleted posts
	warn     sync.Once      // that the container is missing
}

// gone is more than any version.
const gone = math.MaxInt32

func newSearchView(b *base) *searchView {
	versions, _ := lru.New[string, int32](maxVersions) // fails only for sizes below 1
	return &searchView{base: b, versions: versions}
}

func (s *searchView) kind() Kind { return SearchItem }

// project writes the items of changed posts. A rebuild compares them anyway.
func (s *searchView) project(ctx context.Context, c postChanges) error {
	if changefeed.Replaying(ctx) {
		return nil
	}
	var changed []*blog.Post
	for _, p := range c.posts {
		if !s.isWritten(p) {
			changed = append(changed, p)
		}
	}
	have, err := s.read(ctx, changed)
	if err != nil {
		return s.unlessMissing(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, p := range changed {
		g.Go(func() error { return s.write(ctx, s.search, p, have[p.ID], have[p.ID] == nil) })
	}
	return s.unlessMissing(g.Wait())
}

// update writes the item of a post that was just written, so that its writer finds it at once. It takes no longer than
// wait. Its requests are the writer's own: they do not wait while background work is throttled.
func (s *searchView) update(ctx context.Context, p *blog.Post, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if s.isWritten(p) {
		return nil
	}
	return s.unlessMissing(s.write(ctx, s.requests.search, p, nil, p.Revision == 1))
}

// load creates the items of posts of a bulk load.
func (s *searchView) load(ctx context.Context, posts []*blog.Post) error {
	byDecade := map[string][]*blog.Post{}
	for _, p := range posts {
		decade := search.Decade(p.CreatedAt)
		byDecade[decade] = append(byDecade[decade], p)
	}
	for decade, posts := range byDecade {
		for len(posts) > 0 {
			n, err := s.loadBatch(ctx, decade, posts)
			if err != nil {
				return s.unlessMissing(err)
			}
			posts = posts[n:]
		}
	}
	return nil
}

// loadBytes is the size from which on a batch of a bulk load gets no more items: a transactional batch has at most
// 2 MB.
const loadBytes = 1 << 20

// loadBatch creates the items of the first n posts in one transactional batch, or one by one if one exists or is
// refused.
func (s *searchView) loadBatch(ctx context.Context, decade string, posts []*blog.Post) (n int, err error) {
	b := cosmos.Batch{NoItems: true}
	for size := 0; n < min(len(posts), cosmos.MaxBatch) && size < loadBytes; n++ {
		item := blog.Encode(search.NewItem(posts[n]))
		size += len(item)
		b.Create(item)
	}
	r, err := s.search.Batch(ctx, decade, &b)
	if err == nil && r.Failed < 0 || err != nil && !refused(err) {
		return n, stored.Error("create search items", err)
	}
	for _, p := range posts[:n] {
		if err := s.write(ctx, s.search, p, nil, true); err != nil {
			return n, err
		}
	}
	return n, nil
}

// isWritten reports whether this process has seen the item of a version of a post, or of a later one.
func (s *searchView) isWritten(p *blog.Post) bool {
	version, ok := s.versions.Get(p.ID)
	return ok && (version == gone || version >= p.Version && !p.Tombstone)
}

// read reads the items of posts, by id. A replica may lag: then a write finds out.
func (s *searchView) read(ctx context.Context, posts []*blog.Post) (map[string]*search.Item, error) {
	keys := make([]cosmos.Key, len(posts))
	for i, p := range posts {
		keys[i] = stored.Key(search.Decade(p.CreatedAt), p.ID)
	}
	items, err := s.search.ReadMany(ctx, keys)
	found := map[string]*search.Item{}
	for _, raw := range items {
		var item search.Item
		if blog.Unmarshal(raw, &item, blog.Lenient) == nil { // verify reports a malformed one
			found[item.ID] = &item
		}
	}
	return found, err
}

// write writes the item of a post, unless it is as new. have is the item, if it is known; absent is a guess.
func (s *searchView) write(
	ctx context.Context, c *cosmos.Container, p *blog.Post, have *search.Item, absent bool,
) error {
	version := p.Version
	switch {
	case have != nil && have.Deleted:
		version = gone
	case p.Tombstone:
		if err := s.delete(ctx, c, p); err != nil {
			return err
		}
		version = gone
	case have == nil || have.Version < p.Version:
		if p.Truncated {
			var err error
			if p, err = s.whole(ctx, p.ID); p == nil || err != nil {
				return err // deleted, which is another change, or without its text, which verify reports
			}
			version = p.Version
		}
		if err := s.skipRefused(c, p.ID, writeItem(ctx, c, search.NewItem(p), have, absent)); err != nil {
			return err
		}
	}
	s.versions.Add(p.ID, version)
	return nil
}

// writeItem creates an item, or updates it if it is older or has no version. have is the item as read, if it was;
// absent is a guess, which the response may correct.
func writeItem(
	ctx context.Context, c *cosmos.Container, item search.Item, have *search.Item, absent bool,
) (err error) {
	if have != nil && have.Text == item.Text && slices.Equal(have.Tags, item.Tags) {
		if raised, err := raiseVersion(ctx, c, item, have.Version); raised || err != nil {
			return err
		}
	}
	patch := cosmos.Patch{Condition: fmt.Sprintf(
		"from c where (NOT IS_NUMBER(c.version) OR c.version < %d) AND NOT IS_DEFINED(c.deleted)", item.Version)}
	patch.Set("/text", item.Text)
	patch.Set("/tags", append([]string{}, item.Tags...))
	patch.Set("/version", item.Version)
	for range 10 {
		if absent {
			err = c.Create(ctx, item.Decade, blog.Encode(item))
			if !cosmos.HasStatus(err, http.StatusConflict) {
				return err
			}
		} else {
			_, err = c.Patch(ctx, stored.Key(item.Decade, item.ID), patch)
			if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
				if newer, err := isNewer(ctx, c, item); newer || err != nil {
					return err
				}
				continue
			}
			if !cosmos.HasStatus(err, http.StatusNotFound) || isNoContainer(err) {
				return err
			}
		}
		absent = !absent
	}
	return &blog.Error{Code: blog.Conflict, Op: "write search item", Err: err}
}

// raiseVersion sets the version of a stored item that has the text and the tags of a newer one. It reports false if the
// item no longer has the version that it was read with: it may have another text by now.
func raiseVersion(ctx context.Context, c *cosmos.Container, item search.Item, from int32) (bool, error) {
	patch := cosmos.Patch{Condition: fmt.Sprintf("from c where c.version = %d AND NOT IS_DEFINED(c.deleted)", from)}
	patch.Set("/version", item.Version)
	_, err := c.Patch(ctx, stored.Key(item.Decade, item.ID), patch)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) && !isNoContainer(err) {
		return false, nil
	}
	return err == nil, err
}

// isNewer reports whether the stored item is as new as another, or a tombstone, or missing, or malformed: whatever the
// condition of writeItem refuses but an older item, which has been written since.
func isNewer(ctx context.Context, c *cosmos.Container, than search.Item) (bool, error) {
	raw, err := c.ReadPrimary(ctx, stored.Key(than.Decade, than.ID))
	var have struct {
		Version int32           `json:"version"`
		Deleted json.RawMessage `json:"deleted"`
	}
	return raw == nil || blog.Unmarshal(raw, &have, blog.Lenient) != nil || have.Deleted != nil ||
		have.Version >= than.Version, err
}

// delete replaces the item of a deleted post, whatever it is, by a tombstone.
func (s *searchView) delete(ctx context.Context, c *cosmos.Container, p *blog.Post) (err error) {
	item := search.NewTombstone(p)
	key, raw := stored.Key(item.Decade, item.ID), blog.Encode(item)
	for range 10 {
		_, err = c.Replace(ctx, key, raw, "")
		if !cosmos.HasStatus(err, http.StatusNotFound) || isNoContainer(err) {
			return s.skipRefused(c, p.ID, err)
		}
		err = c.Create(ctx, item.Decade, raw)
		if !cosmos.HasStatus(err, http.StatusConflict) {
			return s.skipRefused(c, p.ID, err)
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: "delete search item", Err: err}
}

// whole reads the present version of a post with its text, from the primary replica. It returns nil if the post has
// been deleted, or has lost its text. It skips a malformed post.
func (s *searchView) whole(ctx context.Context, id string) (*blog.Post, error) {
	const op = "read post with text"
	var pair cosmos.Batch
	pair.Read(id)
	pair.Read(blog.TextID)
	r, err := s.posts.Batch(ctx, id, &pair)
	if err != nil {
		return nil, stored.Error(op, err)
	}
	var text []byte
	switch {
	case r.Failed == 0:
		return nil, nil
	case r.Failed < 0:
		text = r.Items[1]
	default: // the post has become short, or its text is lost
		raw, err := s.posts.ReadPrimary(ctx, stored.Key(id, id))
		if raw == nil || err != nil {
			return nil, stored.Error(op, err)
		}
		r.Items = [][]byte{raw}
	}
	item, live, err := blog.Decode[blog.PostItem](op, blog.TypePost, r.Items[0])
	if err != nil {
		s.skip(s.posts.Name(), r.Items[0], err)
	}
	if err != nil || !live {
		return nil, nil
	}
	if p, ok := item.Whole(text); ok {
		return p, nil
	}
	return nil, nil
}

// unlessMissing returns an error, unless it is that the container does not exist.
func (s *searchView) unlessMissing(err error) error {
	if !isNoContainer(err) {
		return stored.Error("write search item", err)
	}
	s.warn.Do(func() {
		s.o.Logger.Warn("posts cannot be searched: the container does not exist. Give the account the capability "+
			"(az cosmosdb update --capabilities EnableNoSQLFullTextSearch, with those that it has), then run "+
			"\"byline provision\" and \"byline views rebuild\"", logContainer, s.search.Name())
	})
	return nil
}

// isNoContainer reports whether a request failed because its container does not exist.
func isNoContainer(err error) bool {
	e := cosmos.ErrorOf(err)
	return e != nil && e.NoContainer()
}

// describeSearchItem returns a digest of an item without its version.
func describeSearchItem(item search.Item) string {
	item.Version = 0
	sum := blog.Digest(string(blog.Encode(item)))
	return fmt.Sprintf("text %x", sum[:4])
}

// suspects lists the items that do not match their posts, and the posts without one. Long posts are compared again, as
// a scan does not keep their texts.
func (s *searchView) suspects(ctx context.Context, read *scan) (found []Difference, _ error) {
	matched := map[string]bool{}
	err := s.readAll(ctx, func(item search.Item, malformed bool) error {
		p := read.posts[item.ID]
		if !malformed && p != nil && p.exists && !p.deleted && p.search == describeSearchItem(item) {
			matched[item.ID] = true
		} else {
			found = append(found, Difference{Kind: SearchItem, Partition: item.Decade, ID: item.ID})
		}
		return nil
	})
	if err != nil {
		return nil, s.unlessMissing(err)
	}
	for id, p := range read.posts {
		if p.exists && !p.deleted && !matched[id] {
			found = append(found, Difference{Kind: SearchItem, Partition: search.Decade(p.entry.CreatedAt), ID: id})
		}
	}
	return found, nil
}

// readAll reads all items except tombstones. Malformed ones have their id and decade at least.
func (s *searchView) readAll(ctx context.Context, each func(_ search.Item, malformed bool) error) error {
	q := cosmos.Query{Text: "SELECT * FROM c", AllPartitions: true, PageSize: 1000}
	for items, err := range s.search.Query(ctx, q) {
		if err != nil {
			return err
		}
		for _, raw := range items {
			var item search.Item
			malformed := blog.Unmarshal(raw, &item) != nil
			if malformed {
				var key struct{ ID, Decade string }
				_ = json.Unmarshal(raw, &key)
				item = search.Item{ID: key.ID, Decade: key.Decade}
			}
			if item.Deleted && !malformed {
				continue
			}
			if err := each(item, malformed); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSuspects lists, without a scan, the items whose posts do not exist.
func (s *searchView) readSuspects(ctx context.Context) (found []Difference, _ error) {
	q := cosmos.Query{Text: "SELECT c.id, c.decade FROM c WHERE NOT IS_DEFINED(c.deleted)", AllPartitions: true,
		PageSize: 100}
	for items, err := range s.search.Query(ctx, q) {
		if err != nil {
			return nil, s.unlessMissing(err)
		}
		var all []search.Item
		var ids []string
		for _, raw := range items {
			var item search.Item
			if blog.Unmarshal(raw, &item, blog.Lenient) == nil {
				all, ids = append(all, item), append(ids, item.ID)
			}
		}
		posts, err := stored.ReadPosts(ctx, s.posts, ids, s.decodeAnyPost)
		if err != nil {
			return nil, err
		}
		for i, p := range posts {
			if p == nil || search.Decade(p.CreatedAt) != all[i].Decade {
				found = append(found, Difference{Kind: SearchItem, Partition: all[i].Decade, ID: all[i].ID})
			}
		}
	}
	return found, nil
}

func (s *searchView) replaySuspects(_ context.Context, posts map[string]*blog.Post) (found []Difference, _ error) {
	for _, p := range posts {
		found = append(found, Difference{Kind: SearchItem, Partition: search.Decade(p.CreatedAt), ID: p.ID})
	}
	return found, nil
}

// compare compares an item with its post.
func (s *searchView) compare(ctx context.Context, d Difference) (*Difference, error) {
	have, item, err := s.readItem(ctx, d)
	if err != nil {
		return nil, s.unlessMissing(err)
	}
	source, want, err := s.wanted(ctx, d)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if want != nil {
		d.Want = describeSearchItem(*want)
	} else if source != nil && source.Truncated && search.Decade(source.CreatedAt) == d.Partition {
		return nil, nil // its text is lost, which is another difference
	}
	if d.Have == d.Want {
		return nil, nil
	}
	author := item.AuthorID
	if source != nil {
		author = source.UserID
	}
	if deleting, err := s.deletionPending(ctx, d.ID, author); deleting || err != nil {
		return nil, err
	}
	return &d, nil
}

// readItem reads an item, and describes it. A tombstone is absent.
func (s *searchView) readItem(ctx context.Context, d Difference) (have string, item storedSearchItem, err error) {
	item.Item, err = s.search.Read(ctx, stored.Key(d.Partition, d.ID))
	if item.Value == nil || err != nil {
		return absent, item, err
	}
	i, live, err := blog.Decode[search.Item]("verify", blog.TypePost, item.Value)
	switch item.AuthorID = i.AuthorID; {
	case err != nil:
		return unreadable, item, nil
	case !live:
		return absent, item, nil
	}
	return describeSearchItem(i), item, nil
}

// storedSearchItem is an item as read.
type storedSearchItem struct {
	cosmos.Item
	AuthorID string
}

// wanted returns the post of a difference, which may be a tombstone or nil, and the item that it should have in the
// partition; nil if there should be none, or if the post has no text.
func (s *searchView) wanted(ctx context.Context, d Difference) (source *blog.Post, want *search.Item, err error) {
	source, err = s.sourceOf(ctx, d.ID)
	if source == nil || err != nil || source.Tombstone || search.Decade(source.CreatedAt) != d.Partition {
		return source, nil, err
	}
	if source.Truncated {
		whole, err := s.whole(ctx, d.ID)
		if whole == nil || err != nil {
			return source, nil, err
		}
		source = whole
	}
	item := search.NewItem(source)
	return source, &item, nil
}

// repair creates, replaces or deletes an item.
func (s *searchView) repair(ctx context.Context, d Difference) error {
	have, item, err := s.readItem(ctx, d)
	if err != nil {
		return err
	}
	source, want, err := s.wanted(ctx, d)
	key := stored.Key(d.Partition, d.ID)
	switch {
	case err != nil:
		return err
	case want != nil && item.Value == nil:
		return s.search.Create(ctx, d.Partition, blog.Encode(*want))
	case want != nil:
		return stored.Replace(ctx, s.search, key, item.Item, *want)
	case have == absent:
		return nil
	case source != nil && source.Tombstone: // late changes must not restore the item
		_, err = s.search.Replace(ctx, key, blog.Encode(search.NewTombstone(source)), item.ETag)
		return err
	}
	return s.search.Delete(ctx, key, item.ETag)
}
