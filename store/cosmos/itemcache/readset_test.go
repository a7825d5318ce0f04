package itemcache

import (
	"testing"
	"time"
)

// Several reads form a snapshot if all changes until after the last read are known.
func TestReadSet_Snapshot(t *testing.T) {
	posts := newContainer()
	posts.poll.Store(int64(time.Second))
	now := time.Now()
	posts.since.Store(now.Add(-time.Minute).UnixNano())
	posts.until.Store(now.UnixNano())
	for _, tt := range []struct {
		ended time.Time
		valid bool
	}{{now.Add(-1), true}, {now, false}, {now.Add(1), false}} {
		r := ReadSet{cache: posts.cache}
		for range 2 {
			r.reads = append(r.reads, readSetRead{posts, "p", Value{stamp: posts.cache.changes.stamp(posts.path, "p"),
				began: now.Add(-time.Second), ended: tt.ended}})
		}
		if valid := r.Valid(nil); valid != tt.valid {
			t.Errorf("last read ended %v after the known changes: got valid %t, want %t", tt.ended.Sub(now), valid,
				tt.valid)
		}
	}
}
