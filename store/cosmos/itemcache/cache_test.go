package itemcache

import (
	"fmt"
	"testing"
	"time"

	"byline/store/cosmos/session"
)

// newContainer returns a container of a cache.
func newContainer() *Container {
	return New(1<<20, &session.State{}).Container("/dbs/blog/colls/posts")
}

// Cached items are valid for as long as docs/consistency.md says.
func TestContainer_Lookup(t *testing.T) {
	posts := newContainer()
	c, f, p := posts.cache, &posts.following, cacheKey{posts.path, "p", "post"}
	f.poll.Store(int64(time.Second))
	for _, tt := range []struct {
		name         string
		age          time.Duration // since the read
		since, until time.Duration // all changes are known from so long ago until so long ago
		fresh, stale bool
	}{
		{"read just now", 0, time.Minute, 0, true, true},
		{"old", 29 * time.Second, time.Minute, 0, true, false},
		{"too old", 31 * time.Second, time.Minute, 0, false, false},
		{"feed behind for a while", 5 * time.Second, time.Minute, 2 * time.Second, true, true},
		{"feed behind for too long", 5 * time.Second, time.Minute, 4 * time.Second, false, true},
		{"feed behind for too long, but read since", 2 * time.Second, time.Minute, 4 * time.Second, true, true},
		{"read before the Tail began", 5 * time.Second, time.Second, 0, false, true},
		{"read at the moment when the Tail began", 5 * time.Second, 5 * time.Second, 0, false, true},
		{"read shortly before the Tail began", 2 * time.Second, time.Second, 0, true, true},
		{"read before the Tail began, too old", 11 * time.Second, time.Second, 0, false, false},
	} {
		now := time.Now()
		f.since.Store(now.Add(-tt.since).UnixNano())
		f.until.Store(now.Add(-tt.until).UnixNano())
		c.entries.Set(p, Value{stamp: c.changes.stamp(p.container, p.partition), began: now.Add(-tt.age)})
		if _, fresh, stale := posts.Lookup(nil, "p", "post"); fresh != tt.fresh || stale != tt.stale {
			t.Errorf("%s: got fresh %t, stale %t, want %t, %t", tt.name, fresh, stale, tt.fresh, tt.stale)
		}
	}
}

// Every change of a partition is noticed.
func TestChanges_Stamp(t *testing.T) {
	changes := &newContainer().cache.changes
	for i := range 10 {
		partition := fmt.Sprint(i)
		before := changes.stamp("posts", partition)
		if !before.unchanged() {
			t.Fatal("changed before a change")
		}
		if changes.changed("posts", partition); before.unchanged() {
			t.Errorf("partition %s is unchanged after a change", partition)
		}
	}
}
