package username

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// Each change of a byline makes the projections rewrite everything the user wrote, even if only the case of the
// username changes: 238,000 RU for 20,000 comments.
const maxRenames = 3

// Renames returns how often a user may change the username, given the period.
func Renames(period time.Duration) blog.Quota { return blog.Quota{Most: maxRenames, Period: period} }

// maxFormer is the most released names kept for a user, so that no user can hold many.
const maxFormer = 5

// Rename gives a user another name: it reserves the name, marks the reservation of the old one as leaving, calls write,
// and releases the old name. write changes the user, and stores the former names; it returns nil, and so does Rename,
// if another request has changed the user meanwhile. If another user has taken the new name meanwhile, Rename calls
// revert, which restores the old name of the changed user, and returns Conflict.
func (n *Names) Rename(
	ctx context.Context, op string, u *blog.UserItem, name string,
	write func(former []string) (*blog.User, error), revert func(*blog.User) error,
) (*blog.User, error) {
	if err := n.Reserve(ctx, op, u.UserID, name); err != nil {
		return nil, err
	}
	old, etag, err := n.Read(ctx, op, u.Username)
	if err != nil {
		return nil, err
	}
	if old != nil && old.OwnerID == u.UserID {
		leaving := old.MarkLeaving(n.now())
		marked, err := n.Replace(ctx, old, etag, leaving)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) || stored.Ambiguous(ctx, err) {
			return nil, nil // try again
		}
		if err != nil {
			return nil, stored.Error(op, err)
		}
		old, etag = leaving, marked
	}
	former, freed := formerUsernames(u, name)
	renamed, err := write(former)
	if renamed == nil || err != nil {
		return nil, err
	}
	if lost, err := n.Lost(ctx, op, u.UserID, name); err != nil {
		return nil, err
	} else if lost {
		return nil, cmp.Or(revert(renamed), ErrTaken(op))
	}
	if old != nil && old.OwnerID == u.UserID {
		if _, err := n.release(ctx, old, etag); err != nil {
			// The user has the new name; the sweep releases the old one.
			n.Logger.Warn("old username not released", "user", u.UserID, "error", err)
		}
	}
	for _, name := range freed {
		if err := n.free(ctx, op, u.UserID, name); err != nil { // the reservation expires anyway
			n.Logger.Warn("former username not freed", "user", u.UserID, "error", err)
		}
	}
	return renamed, nil
}

// formerUsernames returns the former names to keep for a user who gets another name, and those to free.
func formerUsernames(u *blog.UserItem, username string) (former, freed []string) {
	taken := Key(username)
	for _, name := range append(slices.Clone(u.FormerUsernames), u.Username) {
		if k := Key(name); k != taken && (k != Key(u.Username) || name == u.Username) {
			former = append(former, name)
		}
	}
	extra := max(0, len(former)-maxFormer)
	return former[extra:], former[:extra]
}

// free deletes the reservation of a name that is kept for a user.
func (n *Names) free(ctx context.Context, op, userID, name string) error {
	r, etag, err := n.Read(ctx, op, name)
	if r == nil || err != nil || r.OwnerID != userID || r.TTL == 0 {
		return err
	}
	err = n.Users.Delete(ctx, stored.Key(r.ID, r.ID), etag)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil
	}
	return stored.Error(op, err)
}
