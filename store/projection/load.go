package projection

import (
	"context"
	"strconv"

	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
)

// Load is a bulk load into an empty database that writes the views itself.
type Load struct {
	views  *Views
	writes cosmos.Writes
	posts  []changefeed.Mark // the ends of the change feeds before the load
	users  []changefeed.Mark
}

// BeginLoad begins a load. It returns nil if posts or users have changes already, which the projections
// may not have handled.
func (v *Views) BeginLoad(ctx context.Context) (*Load, error) {
	const op = "begin load"
	l := &Load{views: v}
	var err error
	if l.posts, err = changefeed.EndIfEmpty(ctx, v.posts.ChangeFeed()); l.posts == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	if l.users, err = changefeed.EndIfEmpty(ctx, v.users.ChangeFeed()); l.users == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	return l, nil
}

// Context returns a context for writes of the load.
func (l *Load) Context(ctx context.Context) context.Context {
	return cosmos.WithWrites(ctx, &l.writes)
}

// Finish makes projections that have not started yet begin after the load. All its writes, those of the
// views included, must have ended. It reports false, and changes nothing, if there may be concurrent other
// writes: a transaction raises the LSN of its partition key range by at least one, so there are none if the
// LSN has risen by the number of transactions of the load.
func (l *Load) Finish(ctx context.Context) (alone bool, err error) {
	posts, alone := advance(l.posts, l.writes.In(l.views.posts))
	users, alsoAlone := advance(l.users, l.writes.In(l.views.users))
	if !alone || !alsoAlone {
		return false, nil
	}
	for _, p := range l.views.processors() {
		marks := users
		if p.source == l.views.posts {
			marks = posts
		}
		if err := changefeed.StartAfter(ctx, l.views.leases.ChangeFeed(), p.options.Name, l.views.o.Clock, marks); err != nil {
			return false, stored.Error("end load", err)
		}
	}
	return true, nil
}

// advance moves marks past the writes to their ranges. It reports false if there may be other writes, or if
// the ranges were split or merged since.
func advance(from []changefeed.Mark, written map[uint64]cosmos.Written) (to []changefeed.Mark, alone bool) {
	for _, m := range from {
		if id, err := strconv.ParseUint(m.RangeID, 10, 64); err != nil {
			return nil, false
		} else if w, ok := written[id]; ok {
			if w.Version != m.Version || w.LSN != m.LSN+w.Transactions {
				return nil, false
			}
			m.LSN = w.LSN
			delete(written, id)
		}
		to = append(to, m)
	}
	return to, len(written) == 0
}
