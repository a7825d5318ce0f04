// Package names makes a response show one username for each user.
//
// Posts, comments and likes have copies of their authors' usernames, and copies lag behind
// a rename. So the usernames of a response are recorded while its fields are resolved, and
// decided when it is written: users whose copies differ, or are known to be older than a
// rename, are read in one batch. A response without such copies needs no read.
package names

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/99designs/gqlgen/graphql"

	"byline/store/blog"
)

// Names are the usernames of one response. They are safe for concurrent use.
type Names struct {
	renamed string // a user whose copies may be stale; "": none
	read    func(ids []string) ([]*blog.User, error)

	mu      sync.Mutex
	copies  map[string]string // guarded by mu; by user id, the first copy that was shown
	differ  []string          // guarded by mu; users with differing copies, possibly repeated
	names   map[string]string // guarded by mu; by user id, what is shown instead of copies
	settled bool              // guarded by mu
	changed bool              // guarded by mu; see Settle
}

// New returns the Names of a response. If copies of the user renamed are shown, they are checked.
// read returns the users with the ids, in their order; nil for an unknown id.
func New(renamed string, read func(ids []string) ([]*blog.User, error)) *Names {
	return &Names{renamed: renamed, read: read}
}

type namesKey struct{}

// With returns a context of a response with the usernames n.
func With(ctx context.Context, n *Names) context.Context {
	return context.WithValue(ctx, namesKey{}, n)
}

// From returns the Names of the response that ctx belongs to. It panics if there are none.
func From(ctx context.Context) *Names { return ctx.Value(namesKey{}).(*Names) }

// Set replaces all copies of a user's name: the user has just been renamed.
func (n *Names) Set(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setLocked(id, name)
}

func (n *Names) setLocked(id, name string) {
	if n.names == nil {
		n.names = map[string]string{}
	}
	n.names[id] = name
}

// Show records that a copy of a user's name is shown, and returns the name as far as it is known. It
// is final once Settle has been called.
func (n *Names) Show(id, copied string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.names[id]; ok {
		return name
	}
	switch first, ok := n.copies[id]; {
	case !ok:
		if n.copies == nil {
			n.copies = map[string]string{}
		}
		n.copies[id] = copied
	case first != copied:
		n.differ = append(n.differ, id)
	}
	return copied
}

// Settle decides which names are shown, and reports whether one differs from what Show has
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
	for id, name := range n.names {
		first, shown := n.copies[id]
		n.changed = n.changed || shown && first != name
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
		if _, known := n.names[id]; !known {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	users, err := n.read(ids)
	for i, id := range ids {
		if err == nil && users[i] != nil {
			n.setLocked(id, users[i].Username)
		} else {
			n.setLocked(id, n.copies[id]) // the same copy everywhere, at least
		}
	}
}

// User is a user as a response shows it.
type User struct {
	blog.User
	names *Names
}

// User returns a user as the response shows it.
func (n *Names) User(u blog.User) *User { return &User{u, n} }

// Username returns the name to show.
func (u *User) Username() Name {
	u.names.Show(u.ID, u.User.Username)
	return Name{u.names, u.ID, u.User.Username}
}

// Name is a username that is decided when the response is written.
type Name struct {
	names      *Names
	id, copied string
}

// MarshalGQL implements graphql.Marshaler.
func (n Name) MarshalGQL(w io.Writer) {
	n.names.Settle()
	graphql.MarshalString(n.names.Show(n.id, n.copied)).MarshalGQL(w)
}

// UnmarshalGQL implements graphql.Unmarshaler, which gqlgen requires. A Name is never an
// input.
func (*Name) UnmarshalGQL(any) error { return errors.New("a name is no input") }
