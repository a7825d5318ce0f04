// Package names makes a response show one byline for each user: one name and one picture.
//
// Posts, comments and likes have copies of their authors' bylines, and copies lag behind
// a change. So the bylines of a response are recorded while its fields are resolved, and
// decided when it is written: users whose copies differ, or are known to be older than a
// change, are read in one batch. A response without such copies needs no read.
package names

import (
	"context"
	"sync"

	"byline/store/blog"
)

// Names are the bylines of one response. They are safe for concurrent use.
type Names struct {
	renamed string // a user whose copies may be stale; "": none
	read    func(ids []string) ([]*blog.User, error)

	mu      sync.Mutex
	copies  map[string]blog.Byline // guarded by mu; by user id, the first copy that was shown
	differ  []string               // guarded by mu; users with differing copies, possibly repeated
	bylines map[string]blog.Byline // guarded by mu; by user id, what is shown instead of copies
	settled bool                   // guarded by mu
	changed bool                   // guarded by mu; see Settle
}

// New returns the Names of a response. If copies of the user renamed are shown, they are checked.
// read returns the users with the ids, in their order; nil for an unknown id.
func New(renamed string, read func(ids []string) ([]*blog.User, error)) *Names {
	return &Names{renamed: renamed, read: read}
}

type namesKey struct{}

// With returns a context of a response with the bylines n.
func With(ctx context.Context, n *Names) context.Context {
	return context.WithValue(ctx, namesKey{}, n)
}

// From returns the Names of the response that ctx belongs to. It panics if there are none.
func From(ctx context.Context) *Names { return ctx.Value(namesKey{}).(*Names) }

// Set replaces all copies of a user's byline: it has just been changed.
func (n *Names) Set(b blog.Byline) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setLocked(b)
}

func (n *Names) setLocked(b blog.Byline) {
	if n.bylines == nil {
		n.bylines = map[string]blog.Byline{}
	}
	n.bylines[b.UserID] = b
}

// Show records that a copy of a user's byline is shown, and returns the byline as far as it is known. It
// is final once Settle has been called.
func (n *Names) Show(copied blog.Byline) blog.Byline {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b, ok := n.bylines[copied.UserID]; ok {
		return b
	}
	switch first, ok := n.copies[copied.UserID]; {
	case !ok:
		if n.copies == nil {
			n.copies = map[string]blog.Byline{}
		}
		n.copies[copied.UserID] = copied
	case first != copied:
		n.differ = append(n.differ, copied.UserID)
	}
	return copied
}

// Settle decides which bylines are shown, and reports whether one differs from what Show has
// returned. It is called when all fields have been resolved; only the first call reads.
func (n *Names) Settle() (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.settled {
		return n.changed
	}
	n.settled = true
	n.decideLocked()
	n.changed = len(n.differ) > 0
	for id, b := range n.bylines {
		first, shown := n.copies[id]
		n.changed = n.changed || shown && first != b
	}
	return n.changed
}

// decideLocked reads the users whose copies differ or may be stale.
func (n *Names) decideLocked() {
	unsure := map[string]bool{}
	for _, id := range n.differ {
		unsure[id] = true
	}
	if _, shown := n.copies[n.renamed]; shown {
		unsure[n.renamed] = true
	}
	var ids []string
	for id := range unsure {
		if _, known := n.bylines[id]; !known {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	users, err := n.read(ids)
	for i, id := range ids {
		if err == nil && users[i] != nil {
			n.setLocked(users[i].Byline)
		} else {
			n.setLocked(n.copies[id]) // the same copy everywhere, at least
		}
	}
}
