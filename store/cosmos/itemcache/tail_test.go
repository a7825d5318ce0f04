package itemcache

import (
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
)

// All changes of a container are known once those of all its ranges are, until the earliest time of any
// range.
func TestFollowing_Ranges(t *testing.T) {
	var f following
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	whole, left, right := azcosmos.FeedRange{MaxExclusive: "FF"}, azcosmos.FeedRange{MaxExclusive: "1F"},
		azcosmos.FeedRange{MinInclusive: "1F", MaxExclusive: "FF"}
	for i, step := range []struct {
		of           azcosmos.FeedRange
		reached      int64
		since, until int64 // 0: not known
	}{
		{left, 1, 0, 0},
		{right, 2, 1, 1},
		{right, 3, 1, 1},
		{left, 4, 1, 3},
		{whole, 5, 1, 5}, // they were merged
		{right, 6, 1, 5}, // and split again
		{left, 7, 1, 6},
	} {
		f.reached(step.of, at(step.reached))
		if since, until := f.since.Load()/1e9, f.until.Load()/1e9; since != step.since || until != step.until {
			t.Errorf("step %d: got known from %d until %d, want from %d until %d", i, since, until, step.since,
				step.until)
		}
	}
	for _, p := range []changefeed.Progress{{Lag: 1}, {Err: errors.New("not read")}, {}} {
		p.Range, p.Began = whole, at(8)
		f.observe(p)
		if known := f.until.Load()/1e9 == 8; known != (p.Lag == 0 && p.Err == nil) {
			t.Errorf("%+v: got known %t", p, known)
		}
	}
	f.reset()
	if f.since.Load() != 0 {
		t.Error("changes are known after reset")
	}
	if f.reached(left, at(9)); f.since.Load() != 0 {
		t.Error("after reset, a part of the ranges counts as all of them")
	}
}
