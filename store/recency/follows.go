package recency

import (
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
)

// FreshFor is how long a change of a follow is kept until the view has it: longer than the view takes, unless its
// handler is stopped.
const FreshFor = time.Minute

const (
	maxFresh   = 10_000               // viewers whose changes are kept
	maxChanges = 2 * blog.MaxFollowed // changes of one viewer
	maxViewed  = 10_000               // changes that the view has
)

// Follows has the changes of follows that the views in the viewers' partitions may lack, and the authors whom those
// viewers follow who watch for new posts.
type Follows struct {
	clock func() time.Time

	mu       sync.Mutex
	fresh    *simplelru.LRU[string, map[string]change] // guarded by mu; by viewer and author
	viewed   *simplelru.LRU[followKey, change]         // guarded by mu
	watchers map[string]*Watcher                       // guarded by mu; by viewer
}

// Change is the state of a follow.
type Change struct {
	Follows    bool
	FollowedAt blog.Date
}

// change is the state of a follow as of a revision.
type change struct {
	Change
	revision int64
	at       time.Time // when it was written; zero if the view has it
}

func changeOf(item *blog.FollowItem, at time.Time) change {
	return change{Change{!item.Deleted, item.FollowedAt}, item.Revision, at}
}

// supersedes reports whether a change is as new as another of the same follow: neither its revision nor its date is
// before. Revisions begin again when a user registers again, or the follow's tombstone has expired; the date is later
// then.
func (c change) supersedes(o change) bool {
	return c.revision >= o.revision && c.FollowedAt >= o.FollowedAt
}

type followKey struct{ viewer, author string }

// Watcher has the authors whom a viewer follows by the view, while streams of the viewer are open.
type Watcher struct {
	all     *Follows
	viewer  string
	streams int // guarded by all.mu

	authors  map[uint64]struct{} // guarded by all.mu; hashes
	loaded   bool                // guarded by all.mu
	meantime map[string]bool     // guarded by all.mu; changes before it was loaded, by author
}

// NewFollows returns Follows without changes and Watchers.
func NewFollows(clock func() time.Time) *Follows {
	fresh, _ := simplelru.NewLRU[string, map[string]change](maxFresh, nil) // fails only for sizes below 1
	viewed, _ := simplelru.NewLRU[followKey, change](maxViewed, nil)
	return &Follows{clock: clock, fresh: fresh, viewed: viewed, watchers: map[string]*Watcher{}}
}

// Wrote records a change that was written at the given time, given the author's item. It reports whether the change is
// new.
func (f *Follows) Wrote(item *blog.FollowItem, at time.Time) bool {
	viewer, author, wrote := item.OwnerID, item.UserID, changeOf(item, at)
	f.mu.Lock()
	defer f.mu.Unlock()
	if viewed, ok := f.viewed.Get(followKey{viewer, author}); ok && viewed.supersedes(wrote) {
		return false
	}
	changes := f.changesLocked(viewer)
	have, ok := changes[author]
	if ok && have.supersedes(wrote) {
		return false
	}
	if changes == nil {
		changes = map[string]change{}
	}
	f.fresh.Add(viewer, changes)
	if !ok && len(changes) >= maxChanges {
		oldest := author
		for a, c := range changes {
			if oldest == author || c.at.Before(changes[oldest].at) {
				oldest = a
			}
		}
		delete(changes, oldest)
	}
	changes[author] = wrote
	return true
}

// changesLocked returns the changes of a viewer's follows without old ones, which it drops: the view has them, or has a
// later change that was reported before them.
func (f *Follows) changesLocked(viewer string) map[string]change {
	changes, _ := f.fresh.Peek(viewer)
	now := f.clock()
	maps.DeleteFunc(changes, func(_ string, c change) bool { return now.Sub(c.at) > FreshFor })
	if len(changes) == 0 {
		f.fresh.Remove(viewer)
	}
	return changes
}

// Viewed records a change that the view has, given the viewer's item. It may be an earlier one than was written.
func (f *Follows) Viewed(item *blog.FollowItem) {
	viewer, author, viewed := item.UserID, item.OwnerID, changeOf(item, time.Time{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.viewed.Add(followKey{viewer, author}, viewed)
	changes, _ := f.fresh.Peek(viewer)
	if have, ok := changes[author]; ok && viewed.supersedes(have) {
		if delete(changes, author); len(changes) == 0 {
			f.fresh.Remove(viewer)
		}
	}
	if w := f.watchers[viewer]; w != nil {
		w.setLocked(author, viewed.Follows)
	}
}

// setLocked records whether the view has an author.
func (w *Watcher) setLocked(author string, follows bool) {
	switch {
	case !w.loaded:
		w.meantime[author] = follows
	case follows:
		w.authors[hashOf(author)] = struct{}{}
	default:
		delete(w.authors, hashOf(author))
	}
}

// Fresh returns the changes of a viewer's follows that the view may lack, by author. Call it before reading the view,
// which has them once they are no longer fresh.
func (f *Follows) Fresh(viewer string) map[string]Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.changesLocked(viewer)
	if len(changes) == 0 {
		return nil
	}
	fresh := make(map[string]Change, len(changes))
	for author, c := range changes {
		fresh[author] = c.Change
	}
	return fresh
}

// Watch returns the Watcher of a viewer for a new stream, which must Close it. It needs Load.
func (f *Follows) Watch(viewer string) *Watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchers[viewer]
	if w == nil {
		w = &Watcher{all: f, viewer: viewer, authors: map[uint64]struct{}{}, meantime: map[string]bool{}}
		f.watchers[viewer] = w
	}
	w.streams++
	return w
}

// Loaded reports whether Load was called.
func (w *Watcher) Loaded() bool {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	return w.loaded
}

// Load sets the authors that the view had after Watch. Changes of the view since then have precedence.
func (w *Watcher) Load(authors []string) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	if w.loaded {
		return
	}
	w.loaded = true
	for _, author := range authors {
		w.authors[hashOf(author)] = struct{}{}
	}
	for author, follows := range w.meantime {
		w.setLocked(author, follows)
	}
	w.meantime = nil
}

// Close ends a call of Watch.
func (w *Watcher) Close() {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	if w.streams--; w.streams == 0 {
		delete(w.all.watchers, w.viewer)
	}
}

// HasWatchers reports whether there is a Watcher.
func (f *Follows) HasWatchers() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watchers) > 0
}

// Watchers returns the viewers with a Watcher who follow an author, by the fresh changes or else by the view.
func (f *Follows) Watchers(author string) (viewers []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := hashOf(author)
	for viewer, w := range f.watchers {
		_, follows := w.authors[h]
		if c, ok := f.changesLocked(viewer)[author]; ok {
			follows = c.Follows
		}
		if follows {
			viewers = append(viewers, viewer)
		}
	}
	return viewers
}
