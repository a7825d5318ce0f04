package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"byline/store/changefeed"
	"byline/store/cosmos"
)

// The feed container holds short forms of the newest posts in one partition, or in
// each of several.
const feedServed = 100 // what readers see

// feedRefill is the number of entries below which the feed is refilled after deletes.
const feedRefill = 125

// FeedKept is how many posts the feed keeps: more than it serves, so that deletes leave
// no gap.
const FeedKept = 150

// Feed is Q6: the newest 100 posts in short form, newest first, by one query of one
// of the feed's partitions.
func (s *Store) Feed(ctx context.Context, p Paging) (*Page[*Post], error) {
	ctx = s.account.Begin(ctx, Q6)
	l := list[Post]{op: "list feed", container: s.feed, partition: typePost, copies: s.feedPartitions, limit: feedServed,
		format: summaries, place: placeOfPost}
	p.Order = NewestFirst
	return l.page(ctx, p)
}

// feedEntry is an entry of the feed, as far as its place and its age are concerned.
type feedEntry struct {
	ID        string
	CreatedAt Date
}

// UnmarshalJSON takes whatever stands for the date: an entry that somebody has
// spoilt has to be seen to be mended.
func (e *feedEntry) UnmarshalJSON(b []byte) error {
	values := gjson.GetManyBytes(b, "id", "creationDate")
	*e = feedEntry{values[0].String(), Date(fmt.Sprint(values[1].Value()))}
	return nil
}

func entryOf(p *Post) feedEntry { return feedEntry{p.ID, p.CreatedAt} }

// newestFirst orders entries as the feed lists them.
func newestFirst(a, b feedEntry) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// feedEntries reads what is in a partition of the feed, newest first.
func (s *Store) feedEntries(ctx context.Context, partition string) ([]feedEntry, error) {
	return readPages[feedEntry](ctx, "read feed", s.background.feed, cosmos.Query{Partition: partition,
		Text: "SELECT c.id, c.creationDate FROM c WHERE NOT IS_DEFINED(c.deleted) ORDER BY c.creationDate DESC, c.id DESC"})
}

// readPages reads all that a query yields.
func readPages[T any](ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) ([]T, error) {
	var all []T
	for items, err := range c.Query(ctx, q) {
		if err != nil {
			return nil, cosmosError(op, err)
		}
		for _, raw := range items {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, &Error{Code: Internal, Op: op, Err: err}
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// projectFeed brings the posts to every partition of the feed, also when it fails for
// one of them.
func (s *Store) projectFeed(ctx context.Context, posts []*Post) error {
	entries, short := make([][]feedEntry, len(s.feedPartitions)), make([]bool, len(s.feedPartitions))
	var g errgroup.Group
	g.SetLimit(projectionWorkers)
	for i, partition := range s.feedPartitions {
		g.Go(func() (err error) {
			entries[i], short[i], err = s.projectFeedPartition(ctx, partition, posts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, partition := range s.feedPartitions {
		if short[i] {
			if err := s.refillFeed(ctx, partition, entries[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// projectFeedPartition brings the posts that belong to the newest into a partition of
// the feed and lets go what falls off its end. A change to a post that is older than
// the last entry costs nothing. It returns what is in the partition then, and whether
// that is too little: deletes have emptied it.
func (s *Store) projectFeedPartition(ctx context.Context, partition string, posts []*Post) (entries []feedEntry, short bool, err error) {
	if entries, err = s.feedEntries(ctx, partition); err != nil {
		return nil, false, err
	}
	older, deleted, changed := false, false, false
	var newest []*Post
	for _, p := range posts {
		if n := len(entries); n > 0 && newestFirst(entryOf(p), entries[min(n, FeedKept)-1]) > 0 {
			older = older || !p.deleted
			continue
		}
		// A copy that was not there may be by now, whoever has created it.
		_, there := slices.BinarySearchFunc(entries, entryOf(p), newestFirst)
		newest, deleted, changed = append(newest, p), deleted || p.deleted, changed || p.deleted || !there
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, projectionWorkers/len(s.feedPartitions)))
	writeCopies(gctx, g, s.background.feed, partition, newest)
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	if changed {
		if entries, err = s.feedEntries(ctx, partition); err != nil {
			return nil, false, err
		}
	}
	// A feed that is not full has all posts there are, or lacks some by deletes.
	if n := len(entries); n < FeedKept && older || deleted && n < feedRefill {
		return entries, true, nil
	}
	return entries, false, s.trimFeed(ctx, partition, entries)
}

func (s *Store) trimFeed(ctx context.Context, partition string, entries []feedEntry) error {
	for i := FeedKept; i < len(entries); i++ {
		if !addressable(entries[i].ID) {
			continue // somebody else's
		}
		err := s.background.feed.Delete(ctx, key(partition, entries[i].ID), "")
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
			return cosmosError("trim feed", err)
		}
	}
	return nil
}

// refillFeed appends the newest posts that are older than the last entry of a
// partition of the feed. The first partition's are looked for among all posts; the
// others take over what is in the first.
func (s *Store) refillFeed(ctx context.Context, partition string, entries []feedEntry) error {
	const op = "refill feed"
	missing := FeedKept - len(entries)
	var candidates []feedEntry
	var err error
	if first := s.feedPartitions[0]; partition == first {
		candidates, err = s.olderPosts(ctx, op, entries, missing)
	} else {
		candidates, err = s.feedEntries(ctx, first)
		candidates = slices.DeleteFunc(candidates, func(e feedEntry) bool { return slices.Contains(entries, e) })
	}
	if err != nil {
		return err
	}
	slices.SortFunc(candidates, newestFirst)
	for chunk := range slices.Chunk(candidates[:min(missing, len(candidates))], 100) {
		var ids []string
		for _, e := range chunk {
			ids = append(ids, e.ID)
		}
		posts, err := readPosts(ctx, s.background.posts, ids, s.decodeAnyPost)
		if err != nil {
			return err
		}
		for _, p := range posts {
			if p == nil {
				continue // deleted meanwhile, or not to be read
			}
			if err := writeCopy(ctx, s.background.feed, partition, p); err != nil {
				return err
			}
		}
		changed, err := s.changedSince(ctx, s.background.posts, posts)
		if err != nil {
			return err
		}
		for _, p := range changed {
			if err := writeCopy(ctx, s.background.feed, partition, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// changedSince reads posts again, nil ones aside, and returns those that have changed, deleted
// ones too. Who has written copies of them writes these as well: the change may have been
// handled, in another feed range, while the copy was not there yet, and so been passed over.
func (s *Store) changedSince(ctx context.Context, c *cosmos.Container, posts []*Post) (changed []*Post, err error) {
	var ids []string
	revisions := map[string]int64{}
	for _, p := range posts {
		if p != nil {
			ids, revisions[p.ID] = append(ids, p.ID), p.Revision
		}
	}
	now, err := readPosts(ctx, c, ids, func(op string, raw []byte) (*Post, error) {
		p, err := decodeChangedPost(op, raw)
		if err != nil {
			s.setAside(postsContainer, raw, err)
			return nil, nil
		}
		return p, nil
	})
	for _, p := range now {
		if p != nil && p.Revision != revisions[p.ID] {
			changed = append(changed, p)
		}
	}
	return changed, err
}

// olderPosts finds the newest posts that are older than the feed's last entry: as
// many as are wanted if there are so many, and perhaps more. It looks in all
// partitions, which is never for the request path. They cannot be asked for the
// newest among them all, and what they return is paid for, so it looks only as far
// back as it must.
func (s *Store) olderPosts(ctx context.Context, op string, entries []feedEntry, wanted int) (found []feedEntry, err error) {
	last := feedEntry{CreatedAt: "9"}
	if n := len(entries); n > 0 {
		last = entries[n-1]
	}
	for _, since := range lookBack(entries) {
		found, err = readPages[feedEntry](ctx, op, s.background.posts, cosmos.Query{AllPartitions: true,
			Text: "SELECT c.id, c.creationDate FROM c WHERE c.type = 'post' AND c.creationDate >= @since AND c.creationDate <= @last AND NOT IS_DEFINED(c.deleted)",
		}.With("@since", since).With("@last", last.CreatedAt))
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(e feedEntry) bool { return newestFirst(e, last) <= 0 })
		if len(found) >= wanted {
			break
		}
	}
	return found, nil
}

// lookBack says since when to look for posts that are older than the entries: not
// much longer ago than these, then much longer, then ever.
func lookBack(entries []feedEntry) []Date {
	if len(entries) > 0 {
		newest, err := time.Parse(dateLayout, string(entries[0].CreatedAt))
		oldest, err2 := time.Parse(dateLayout, string(entries[len(entries)-1].CreatedAt))
		if err == nil && err2 == nil {
			span := min(max(newest.Sub(oldest), time.Minute), 365*24*time.Hour)
			return []Date{NewDate(oldest.Add(-4 * span)), NewDate(oldest.Add(-64 * span)), ""}
		}
	}
	return []Date{""}
}

// writeCopy writes the short form of a post into a partition of copies, unless a
// newer revision is there.
func writeCopy(ctx context.Context, c *cosmos.Container, partition string, p *Post) (err error) {
	absent := p.Revision == 1 // what is likely; the answer tells
	for range 10 {
		if absent {
			err = c.Create(ctx, partition, encode(summaryIn(p, c, partition)))
			if !cosmos.HasStatus(err, http.StatusConflict) {
				return cosmosError("create copy", err)
			}
		} else {
			err = updateCopy(ctx, c, partition, p)
			if !cosmos.HasStatus(err, http.StatusNotFound) {
				return cosmosError("update copy", err)
			}
		}
		absent = !absent
	}
	return &Error{Code: Conflict, Op: "write copy", Err: err}
}

// copiesAtOnce bounds how many copies are brought up to date in one batch, and so how
// many are tried again if one of them is not as expected.
const copiesAtOnce = 25

// writeCopies is writeCopy for several posts, by g.
func writeCopies(ctx context.Context, g *errgroup.Group, c *cosmos.Container, partition string, posts []*Post) {
	write := func(posts ...*Post) error {
		for _, p := range posts {
			if err := writeCopy(ctx, c, partition, p); err != nil {
				return err
			}
		}
		return nil
	}
	var counted []*Post
	for _, p := range posts {
		if countsOnly(ctx, p) {
			counted = append(counted, p)
		} else {
			g.Go(func() error { return write(p) })
		}
	}
	for some := range slices.Chunk(counted, copiesAtOnce) {
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
func updateCounts(ctx context.Context, c *cosmos.Container, partition string, posts []*Post) (bool, error) {
	b := cosmos.Batch{NoItems: true}
	for _, p := range posts {
		b.Patch(p.ID, patchCounts(p))
	}
	r, err := c.Batch(ctx, partition, &b)
	return err == nil && r.Failed < 0, cosmosError("update copies", err)
}

// updateCopy brings a copy to the post's revision if it is older. A copy that is
// not there is a 404.
func updateCopy(ctx context.Context, c *cosmos.Container, partition string, p *Post) error {
	if countsOnly(ctx, p) {
		_, err := c.Patch(ctx, key(partition, p.ID), patchCounts(p))
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed) {
			return err
		}
	}
	_, err := c.Patch(ctx, key(partition, p.ID), patchAll(p))
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return nil // as new, or newer
	}
	return err
}

// countsOnly reports whether it is likely that an older copy differs in its counts alone:
// edits raise the version, too.
func countsOnly(ctx context.Context, p *Post) bool {
	return !p.deleted && p.Revision > int64(p.Version) && !changefeed.Replaying(ctx)
}

// patchCounts is a patch of an older copy with the same text.
func patchCounts(p *Post) cosmos.Patch {
	o := patchIfOlder(p, " AND c.version = "+strconv.Itoa(int(p.Version)))
	setCounts(&o, p)
	return o
}

// patchAll is a patch of an older copy.
func patchAll(p *Post) cosmos.Patch {
	o := patchIfOlder(p, "")
	short := p.short()
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

func patchIfOlder(p *Post, and string) (o cosmos.Patch) {
	o.Condition = "from c where c.revision < " + strconv.FormatInt(p.Revision, 10) + and
	o.Set("/revision", p.Revision)
	return o
}

// setCounts sets what changes of a post whose text does not.
func setCounts(o *cosmos.Patch, p *Post) {
	o.Set("/userUsername", p.AuthorUsername)
	o.Set("/commentCount", p.CommentCount)
	o.Set("/likeCount", p.LikeCount)
}
