package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/internal/metric"
	"byline/store/live"
	"byline/store/recency"
	"byline/store/stored"
)

// A home feed is not stored: no write of a post depends on who follows its author. A page takes the authors whom the
// viewer follows, by one query of the viewer's partition, finds their newest posts in the recency index, in memory, and
// reads the posts in one batch.
//
// The index is loaded from the timeline of all posts as readers need it. The tail of the feed container reports each
// new entry of the timeline, so that the index has what the timeline has; the tail of posts reports new and deleted
// posts, mostly earlier. While the first tail is behind, a page reads the newest entries; while it does not run, it
// does without the index. Beyond the index a page merges the lists of few authors, and reads the timeline for many.

const (
	homeWait  = 500 * time.Millisecond // longest wait of a page for the tail
	indexPage = 1000                   // entries in a request
	headPage  = 100                    // likewise, while the tail is behind
	maxLoads  = 20                     // requests of a page that extend the index
	maxMerged = 20                     // authors whose lists a page merges, for up to 2.6 RU each
	maxBeyond = 3                      // rounds of a page beyond the index, for up to 52 RU each
)

// recentPosts is what responses with a home feed depend on in the item cache: no partition of the feed container has
// such a key.
const recentPosts = "recent posts"

// recentIndex is the recency index and the tail that keeps it current.
type recentIndex struct {
	*recency.Index
	running atomic.Bool
	wanted  chan struct{} // signals a reader, for whom the tail runs without a cache
	tail    atomic.Pointer[itemcache.Tail]
	posts   prometheus.Gauge // in the index; Stores with one registry share it
}

func newRecentIndex(most int, r prometheus.Registerer) (*recentIndex, error) {
	posts, err := metric.Register(r,
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_recency_posts", Help: "Posts in the index of --recency."}))
	return &recentIndex{Index: recency.New(most), wanted: make(chan struct{}, 1), posts: posts}, err
}

// measure sets the gauge after a change of the index.
func (r *recentIndex) measure() {
	n, _ := r.Size()
	r.posts.Set(float64(n))
}

// indexPost adds a post that was published to the recency index.
func (b *base) indexPost(id, authorID string, created blog.Date) {
	if b.recent.Add(blog.AuthoredEntry{Entry: blog.Entry{CreatedAt: created, ID: id}, AuthorID: authorID}) {
		b.recent.measure()
		b.feed.Changed(recentPosts) // now: since then, a response may have read the index
	}
}

// indexChange keeps the recency index current with changes of posts.
func (b *base) indexChange(c *blog.Change) {
	if c.Deleted {
		b.recent.Remove(blog.Entry{CreatedAt: c.CreatedAt, ID: c.ID})
	} else {
		b.indexPost(c.ID, c.UserID, c.CreatedAt)
	}
}

// indexEntries keeps the recency index current with changes of the feed container.
func (b *base) indexEntries(items [][]byte) {
	for _, raw := range items {
		var e blog.EntryItem
		if !bytes.Contains(raw, []byte(`"`+blog.AllPosts.Partition(""))) || blog.Unmarshal(raw, &e, blog.Lenient) != nil {
			continue
		}
		if t, _, ok := blog.ParseEntryPartition(e.Type); ok && t == blog.AllPosts && e.ID != blog.CounterID &&
			!e.Deleted {
			b.indexPost(e.ID, e.AuthorID, e.CreatedAt)
		}
	}
}

// runFeedTail runs the tail of the feed container until ctx ends: without a cache, from the first reader on who needs
// it.
func (s *Store) runFeedTail(ctx context.Context) error {
	r := s.recent
	r.running.Store(true)
	defer r.running.Store(false)
	if !s.feed.Caches() {
		select {
		case <-r.wanted:
		case <-ctx.Done():
			return nil
		}
	}
	tail := s.tail("cache-feed", s.feed, "type", s.handleFeed, wokenByReads, nil)
	r.tail.Store(tail)
	defer func() {
		r.tail.Store(nil)
		r.Reset()
		r.measure()
	}()
	return tail.Run(ctx)
}

// catchUp waits until the tail reports all changes. It reports whether the tail runs, and whether it has reported those
// older than lag.
func (r *recentIndex) catchUp(ctx context.Context, lag time.Duration) (runs, current bool) {
	if !r.running.Load() {
		return false, false
	}
	select {
	case r.wanted <- struct{}{}:
	default:
	}
	tail := r.tail.Load()
	if tail == nil {
		return false, false // it begins now
	}
	within, cancel := context.WithTimeout(ctx, homeWait)
	defer cancel()
	select {
	case <-tail.Ready():
	case <-within.Done():
		return false, false
	}
	return true, tail.CaughtUp(lag) || !tail.Failing() && tail.CatchUp(within, lag) == nil
}

// homeStore reads home feeds.
type homeStore struct {
	*base
	follows   *shownFollows
	usersTail *atomic.Pointer[itemcache.Tail] // reports changes of follows; nil before Run
	events    *live.Events                    // set by New
}

// Home is the posts of the authors whom a user follows, newest first: one query and one batch of reads, unless it goes
// beyond the recency index. A page may be shorter than it could be, and More is true.
func (s *homeStore) Home(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	h := homePage{timelinePage: timelinePage{base: s.base, op: "list home"}}
	page, err := h.begin(s.feed.Name()+"/home/"+userID, p)
	if err != nil {
		return nil, err
	}
	ctx = s.beginRead(ctx, Home)
	s.feed.DependOn(ctx, recentPosts)
	if h.authors, err = s.followed(ctx, userID); err != nil || len(h.authors.IDs()) == 0 {
		return page, err
	}
	runs, current := s.recent.catchUp(ctx, 2*s.o.PollInterval+time.Second) // as cached items may be old
	if h.indexed = runs; runs && !current {
		if err := s.readHead(ctx, h.op); err != nil {
			return nil, err
		}
	}
	if err := h.fill(ctx, page, p.First); len(page.Items) > 0 || err != nil {
		return page, err
	}
	_, err = s.timelineItem(ctx, h.op, blog.AllPosts) // so that the tail confirms a cached response without posts
	return page, err
}

// followed returns the authors whom a user follows, with the fresh changes.
func (s *homeStore) followed(ctx context.Context, userID string) (*recency.Authors, error) {
	fresh := s.follows.fresh(ctx, userID)
	viewed, err := s.viewed(ctx, userID)
	if err != nil {
		return nil, err
	}
	return viewed.With(fresh), nil
}

// viewed returns the authors whom a user follows by the view.
func (s *homeStore) viewed(ctx context.Context, userID string) (*recency.Authors, error) {
	const op = "list followed authors"
	return cached(ctx, s.users, userID, "followed", func(ctx context.Context) (*recency.Authors, error) {
		ids := []string{}
		q := cosmos.Query{Partition: userID, PageSize: blog.MaxFollowed,
			Text: "SELECT VALUE c.ownerId FROM c WHERE c.userId = @user AND c.type = @type"}.
			With("@user", userID).With("@type", blog.TypeFollowing)
		for page, err := range s.users.Query(ctx, q) {
			if err != nil {
				return nil, stored.Error(op, err)
			}
			for _, raw := range page {
				var id string
				if err := json.Unmarshal(raw, &id); err != nil {
					return nil, blog.Malformed(op, blog.TypeFollowing, err)
				}
				ids = append(ids, id)
			}
		}
		authors := recency.NewAuthors(ids)
		itemcache.AddSize(ctx, authors.Bytes())
		return authors, nil
	})
}

// readHead adds the newest entries of the timeline to the index, up to those that it has.
func (s *homeStore) readHead(ctx context.Context, op string) error {
	defer s.recent.measure()
	ctx = cosmos.Apart(ctx, HomeIndex)
	after := blog.Entry{}
	for range maxRounds {
		entries, end, err := s.readTimeline(ctx, op, after, headPage)
		if err != nil {
			return err
		}
		news := false
		for _, e := range entries {
			news = s.recent.Add(e) || news
			after = e.Entry
		}
		if end || !news {
			break
		}
	}
	return nil
}

// readTimeline reads the n newest entries of the timeline of all posts that are older than after, or the n newest of
// all if that is the zero Entry; end reports that there are no older ones.
func (b *base) readTimeline(
	ctx context.Context, op string, after blog.Entry, n int,
) (entries []blog.AuthoredEntry, end bool, err error) {
	item, err := b.timelineItem(ctx, op, blog.AllPosts)
	if item == nil || err != nil {
		return nil, err == nil, err
	}
	for _, month := range item.Newest() {
		if after.ID != "" && month > after.CreatedAt.Month() {
			continue
		}
		some, err := stored.ReadAuthoredEntries(ctx, op, b.feed, blog.AllPosts.Partition(month), after, n-len(entries))
		if err != nil {
			return nil, false, err
		}
		if entries = append(entries, some...); len(entries) >= n {
			return entries, false, nil
		}
		if len(some) > 0 {
			after = some[len(some)-1].Entry
		}
	}
	return entries, true, nil
}

// homePage fills a page with up to first posts of authors that are older than after.
type homePage struct {
	timelinePage
	authors *recency.Authors
	indexed bool // after is not beyond the index
}

// fill appends posts to a page of up to first posts, and sets More. Without a post, the page goes on at the position
// that fill has reached.
func (h *homePage) fill(ctx context.Context, to *Page[*blog.Post], first int) error {
	beyond := 0
	for round := 1; len(to.Items) <= first; round++ {
		entries, end, err := h.next(ctx, first+1-len(to.Items))
		if err != nil {
			return err
		}
		posts, err := h.listedPosts(ctx, entries)
		if err != nil {
			return err
		}
		old := blog.NewDate(h.o.Clock().Add(-blog.MaxWriteTime))
		for i, p := range posts {
			if p != nil && h.authors.Has(p.UserID) {
				to.Items = append(to.Items, p)
			} else if p == nil && entries[i].CreatedAt < old { // it was deleted
				h.recent.Remove(entries[i])
			}
		}
		if end {
			break
		}
		if !h.indexed {
			beyond++
		}
		if round >= maxRounds || beyond >= maxBeyond {
			to.More = true
			if len(to.Items) == 0 {
				to.reached = &cursor{Date: h.after.CreatedAt, ID: h.after.ID, Seen: to.seen + 1}
			}
			break
		}
	}
	to.cut(first)
	return nil
}

// next returns up to the n next entries; end reports that there are no others.
func (h *homePage) next(ctx context.Context, n int) (entries []blog.Entry, end bool, err error) {
	for loads := 0; h.indexed; loads++ {
		found, floor, all := h.recent.Scan(h.authors, h.after, n)
		if len(found) >= n || all {
			h.seen(found)
			return found, all && len(found) < n, nil
		}
		if loads < maxLoads && h.recent.Room() {
			if err := h.load(ctx, floor); err != nil {
				return nil, false, err
			}
			continue
		}
		entries = found
		h.seen(found)
		if floor.ID != "" && (h.after.ID == "" || older(floor, h.after)) {
			h.after = floor
		}
		h.indexed = false
	}
	rest, end, err := h.beyondIndex(ctx, n-len(entries))
	return append(entries, rest...), end, err
}

// older reports whether an entry is older than another.
func older(e, than blog.Entry) bool { return compareEntries(e, than) > 0 }

// compareEntries orders entries as timelines do: newest first.
func compareEntries(a, b blog.Entry) int {
	return -cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

func (h *homePage) seen(entries []blog.Entry) {
	if len(entries) > 0 {
		h.after = entries[len(entries)-1]
	}
}

// load extends the index below its floor. Its requests are not the page's.
func (h *homePage) load(ctx context.Context, floor blog.Entry) error {
	defer h.recent.measure()
	err := h.recent.Load(ctx, floor, func() ([]blog.AuthoredEntry, bool, error) {
		return h.readTimeline(cosmos.Apart(ctx, HomeIndex), h.op, floor, indexPage)
	})
	return stored.Error(h.op, err)
}

// beyondIndex returns up to the n next entries without the index: all of them if the authors are few.
func (h *homePage) beyondIndex(ctx context.Context, n int) (entries []blog.Entry, end bool, err error) {
	if len(h.authors.IDs()) <= maxMerged {
		return h.merge(ctx, n)
	}
	all, end, err := h.readTimeline(ctx, h.op, h.after, indexPage)
	if err != nil {
		return nil, false, err
	}
	for _, e := range all {
		if len(entries) == n {
			return entries, false, nil
		}
		if h.after = e.Entry; h.authors.Has(e.AuthorID) {
			entries = append(entries, e.Entry)
		}
	}
	return entries, end, nil
}

// merge returns the n next entries of the authors' own lists, of which it reads n of each.
func (h *homePage) merge(ctx context.Context, n int) ([]blog.Entry, bool, error) {
	authors := h.authors.IDs()
	lists := make([][]blog.Entry, len(authors))
	g, requests := errgroup.WithContext(ctx)
	g.SetLimit(mergeRequests)
	for i, author := range authors {
		g.Go(func() (err error) {
			lists[i], err = h.entriesOf(requests, author, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	all, end := []blog.Entry{}, true
	for _, list := range lists {
		all, end = append(all, list...), end && len(list) < n
	}
	slices.SortFunc(all, compareEntries)
	if len(all) > n {
		all, end = all[:n], false
	}
	h.seen(all)
	return all, end, nil
}

// mergeRequests is how many lists a page reads at a time.
const mergeRequests = 8

// entriesOf reads the n next entries of one author's list.
func (h *homePage) entriesOf(ctx context.Context, author string, n int) ([]blog.Entry, error) {
	after := h.after
	what := fmt.Sprintf("entries %d/%s/%s", n, after.CreatedAt, after.ID)
	return cached(ctx, h.users, author, what, func(ctx context.Context) ([]blog.Entry, error) {
		l := list[blog.Entry]{op: h.op, container: h.users, key: "userId", partition: author, typ: blog.TypePost,
			format: blog.Entries, deletions: h.deletions, show: func(*blog.Entry) bool { return true }}
		page := Page[*blog.Entry]{}
		var from *cursor
		if after.ID != "" {
			from = &cursor{Date: after.CreatedAt, ID: after.ID}
		}
		if err := l.read(ctx, &page, author, NewestFirst, from, n); err != nil {
			return nil, err
		}
		entries := make([]blog.Entry, len(page.Items))
		for i, e := range page.Items {
			entries[i] = *e
		}
		return entries, nil
	})
}

// HomePublished streams the new posts of the authors whom a user follows, as they are published.
func (s *homeStore) HomePublished(ctx context.Context, userID string) (*live.Stream[*blog.Post], error) {
	w := s.follows.known.Watch(userID)
	if tail := s.usersTail.Load(); tail != nil {
		tail.CaughtUp(0) // ends the long interval between polls without a Watcher
	}
	if !w.Loaded() {
		authors, err := s.viewed(s.beginRead(ctx, Home), userID)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.Load(authors.IDs())
	}
	return s.events.HomePosts(ctx, userID, w.Close)
}
