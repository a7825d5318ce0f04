package recency

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"byline/store/blog"
)

// Index is the newest posts of the blog, newest first: those from its floor on, at most a number of them. It has every
// post from the floor on that the timeline has, if it is told of every entry that is created while Load reads, and
// since. It may have others, which have been deleted. It takes some 45 bytes a post.
//
// A post is an entry in one of two slices, each of which grows at its end: later by new posts, earlier by Load.
type Index struct {
	max int

	mu      sync.RWMutex
	later   []entry  // guarded by mu; oldest first
	earlier []entry  // guarded by mu; newest first, all older than those of later
	ids     idPages  // guarded by mu
	dead    int      // guarded by mu; entries that were removed or evicted, whose ids are still there
	floor   position // guarded by mu; the index has all posts from here on
	all     bool     // guarded by mu; and there are no older ones

	loading *semaphore.Weighted  // held by Load
	loads   bool                 // guarded by mu; Load reads
	reset   int                  // guarded by mu; how often the index was reset
	late    []blog.AuthoredEntry // guarded by mu; older than the floor, and added while Load reads
}

// entry is a post in 24 bytes; its id takes some 18 more.
type entry struct {
	millis int64  // of its creation, in Unix time
	author uint64 // hashOf, or removed
	id     uint32 // its place in idPages
}

const removed = 0

// position orders posts as timelines do. The zero position is before all posts.
type position struct {
	millis int64
	id     string
}

func positionOf(e blog.Entry) position { return position{millisOf(e.CreatedAt), e.ID} }

func millisOf(d blog.Date) int64 { return d.Time().UnixMilli() }

func (p position) entry() blog.Entry {
	if p == (position{}) {
		return blog.Entry{}
	}
	return blog.Entry{CreatedAt: blog.NewDate(time.UnixMilli(p.millis)), ID: p.id}
}

// compare returns a negative number if p is older than o.
func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.millis, o.millis), strings.Compare(p.id, o.id))
}

// New returns an empty index of at most so many posts.
func New(most int) *Index { return &Index{max: most, loading: semaphore.NewWeighted(1)} }

// Add adds a post, unless the index has it, or the post is older than the floor. It reports whether the index has
// changed.
func (x *Index) Add(p blog.AuthoredEntry) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := positionOf(p.Entry)
	switch {
	case x.emptyLocked() || !x.all && at.compare(x.floor) < 0:
		if x.loads {
			x.late = append(x.late, p)
		}
		return x.loads
	case !x.insertLocked(at, p.AuthorID):
		return false
	}
	x.evictLocked()
	return true
}

// emptyLocked reports whether nothing has been loaded.
func (x *Index) emptyLocked() bool { return !x.all && x.floor == position{} }

// insertLocked inserts a post, and returns false if the index has it.
func (x *Index) insertLocked(at position, author string) bool {
	e := entry{millis: at.millis, author: hashOf(author)}
	if len(x.later) > 0 && x.compareLocked(x.later[0], at) <= 0 {
		i, found := x.findLaterLocked(at)
		if !found {
			e.id = x.ids.add(at.id)
			x.later = slices.Insert(x.later, i, e)
		}
		return !found
	}
	i, found := x.findEarlierLocked(at)
	switch {
	case found:
		return false
	case i == 0 && len(x.earlier) > 0: // between the two
		e.id = x.ids.add(at.id)
		x.later = slices.Insert(x.later, 0, e)
	default:
		e.id = x.ids.add(at.id)
		x.earlier = slices.Insert(x.earlier, i, e)
	}
	return true
}

// findLaterLocked returns the index in later of the first post that is not older than a position, and whether that is
// at the position.
func (x *Index) findLaterLocked(at position) (int, bool) {
	return slices.BinarySearchFunc(x.later, at, func(e entry, at position) int { return x.compareLocked(e, at) })
}

// findEarlierLocked returns the index in earlier of the first post that is not newer than a position, and whether that
// is at the position.
func (x *Index) findEarlierLocked(at position) (int, bool) {
	return slices.BinarySearchFunc(x.earlier, at, func(e entry, at position) int { return -x.compareLocked(e, at) })
}

func (x *Index) compareLocked(e entry, at position) int {
	if c := cmp.Compare(e.millis, at.millis); c != 0 {
		return c
	}
	return strings.Compare(x.ids.at(e.id), at.id)
}

// Remove removes a post, if the index has it.
func (x *Index) Remove(e blog.Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, in := positionOf(e), x.later
	i, found := x.findLaterLocked(at)
	if !found {
		in = x.earlier
		i, found = x.findEarlierLocked(at)
	}
	if found && in[i].author != removed {
		in[i].author = removed
		x.dead++
		x.compactLocked()
	}
}

// Load extends the index below a floor that Scan has returned, if it has room, and unless another call has. read reads
// the newest posts that are older than the floor, or the newest of all if that is the zero Entry, newest first; end
// tells that there are no others. Calls at the same time wait for each other, until ctx ends.
func (x *Index) Load(
	ctx context.Context, floor blog.Entry, read func() (posts []blog.AuthoredEntry, end bool, err error),
) error {
	if err := x.loading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer x.loading.Release(1)
	reset, ok := x.beginLoad(floor)
	if !ok {
		return nil
	}
	posts, end, err := read()
	x.mu.Lock()
	defer x.mu.Unlock()
	late := x.late
	x.loads, x.late = false, nil
	if err != nil || x.reset != reset {
		return err
	}
	for _, p := range posts {
		at := positionOf(p.Entry)
		x.insertLocked(at, p.AuthorID)
		x.floor = at
	}
	x.all = end
	for _, p := range late {
		if at := positionOf(p.Entry); x.all || at.compare(x.floor) > 0 {
			x.insertLocked(at, p.AuthorID)
		}
	}
	x.evictLocked()
	return nil
}

func (x *Index) beginLoad(floor blog.Entry) (reset int, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all || x.lenLocked() >= x.max || x.floor.entry() != floor {
		return 0, false
	}
	x.loads = true
	return x.reset, true
}

// Reset empties the index, as there may be posts that it was not told of.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.later, x.earlier, x.ids, x.dead, x.floor, x.all, x.late = nil, nil, idPages{}, 0, position{}, false, nil
	x.reset++
}

func (x *Index) lenLocked() int { return len(x.later) + len(x.earlier) }

// evictLocked removes the oldest posts beyond the limit.
func (x *Index) evictLocked() {
	for x.lenLocked() > x.max {
		if len(x.earlier) == 0 {
			x.earlier, x.later = x.later, nil
			slices.Reverse(x.earlier)
		}
		n := max(0, len(x.earlier)-(x.lenLocked()-x.max))
		x.dead += len(x.earlier) - n
		x.earlier = x.earlier[:n]
		x.all = false
		if n > 0 {
			x.floor = x.positionLocked(x.earlier[n-1])
		} else if len(x.later) > 0 {
			x.floor = x.positionLocked(x.later[0])
		}
	}
	x.compactLocked()
}

func (x *Index) positionLocked(e entry) position { return position{e.millis, x.ids.at(e.id)} }

// compactLocked copies the index without what has been removed, once that is an eighth of it.
func (x *Index) compactLocked() {
	if x.dead <= 1000+x.lenLocked()/8 {
		return
	}
	all, ids := make([]entry, 0, x.lenLocked()+x.lenLocked()/8), idPages{}
	add := func(e entry) {
		if e.author != removed {
			e.id = ids.add(x.ids.at(e.id))
			all = append(all, e)
		}
	}
	for _, e := range slices.Backward(x.later) {
		add(e)
	}
	for _, e := range x.earlier {
		add(e)
	}
	x.later, x.earlier, x.ids, x.dead = nil, all, ids, 0
}

// Scan returns the n newest posts of authors that are older than after, or the n newest of all if that is the zero
// Entry. If it finds fewer, it has reached the floor, which it returns, with all false if there may be older posts.
func (x *Index) Scan(authors *Authors, after blog.Entry, n int) (found []blog.Entry, floor blog.Entry, all bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	later, earlier := len(x.later), 0
	if after.ID != "" {
		at := positionOf(after)
		if later, _ = x.findLaterLocked(at); later == 0 {
			var in bool
			if earlier, in = x.findEarlierLocked(at); in {
				earlier++
			}
		}
	}
	take := func(e entry) (full bool) {
		if e.author != removed && authors.hasHash(e.author) {
			found = append(found, x.positionLocked(e).entry())
		}
		return len(found) >= n
	}
	for i := later - 1; i >= 0; i-- {
		if take(x.later[i]) {
			return found, blog.Entry{}, false
		}
	}
	for _, e := range x.earlier[earlier:] {
		if take(e) {
			return found, blog.Entry{}, false
		}
	}
	return found, x.floor.entry(), x.all
}

// Room reports whether Load can extend the index.
func (x *Index) Room() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return !x.all && x.lenLocked() < x.max
}

// Size returns how many posts the index has, and their approximate size in bytes.
func (x *Index) Size() (posts, bytes int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.lenLocked(), 24*(cap(x.later)+cap(x.earlier)) + idPage*len(x.ids.pages)
}

// idPages has ids one after the other, each behind its length, in pages, so that it grows without copying. A place is
// that of the page and, in it, of the length.
type idPages struct{ pages [][]byte }

const (
	idPageBits = 16
	idPage     = 1 << idPageBits
)

// add appends an id, of at most 255 bytes, and returns its place.
func (p *idPages) add(id string) uint32 {
	last := len(p.pages) - 1
	if last < 0 || len(p.pages[last])+1+len(id) > idPage {
		p.pages = append(p.pages, make([]byte, 0, idPage))
		last++
	}
	page := &p.pages[last]
	place := uint32(last)<<idPageBits | uint32(len(*page))
	*page = append(append(*page, byte(len(id))), id...)
	return place
}

func (p *idPages) at(place uint32) string {
	page := p.pages[place>>idPageBits][place&(idPage-1):]
	return string(page[1 : 1+page[0]])
}
