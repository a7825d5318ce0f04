package username

import (
	"context"
	"fmt"
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

// Changes is how often a user may change the display name and the avatar.
var Changes = blog.Quota{Most: 20, Period: 24 * time.Hour}

// Renames returns how often a user may change the username, given the period.
func Renames(period time.Duration) blog.Quota { return blog.Quota{Most: maxRenames, Period: period} }

// maxFormer is the most released names kept for a user, so that no user can hold many.
const maxFormer = 5

// Change changes a user to have the byline and the bio of another state. For another name it reserves that, changes the
// user, and releases the old name. It calls changing before it changes the user, and returns nil if another request has
// changed the user meanwhile.
func (n *Names) Change(
	ctx context.Context, op string, u *blog.UserItem, to blog.User, changing func(),
) (*blog.User, error) {
	var old *Reservation
	var etag cosmos.ETag
	username := to.Username
	sameName := Key(u.Username) == Key(username)
	if !sameName {
		if err := n.Reserve(ctx, op, u.UserID, username); err != nil {
			return nil, err
		}
		var err error
		if old, etag, err = n.Read(ctx, op, u.Username); err != nil {
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
	}
	changing()
	former, freed := formerUsernames(u, username)
	p := change(u.User, to)
	p.ReturnItem = true
	if !slices.Equal(former, u.FormerUsernames) {
		p.Set("/formerUsernames", former)
	}
	if to.Username != u.Username {
		p.Set("/renames", Renames(0).With(u.Renames, n.now()))
	}
	if to.DisplayName != u.DisplayName || to.AvatarURL != u.AvatarURL {
		p.Set("/changes", Changes.With(u.Changes, n.now()))
	}
	if to.Byline == u.Byline && u.Spread() {
		p.Set("/spreadRevision", u.Revision+1)
	}
	r, err := n.Users.Patch(ctx, stored.Key(u.UserID, u.UserID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, nil
	}
	var renamed *blog.User
	if stored.Ambiguous(ctx, err) {
		if have, readErr := stored.ReadUser(ctx, op, n.Users, u.UserID); readErr == nil && have != nil &&
			have.Byline == to.Byline && have.Bio == to.Bio && have.Revision == u.Revision+1 {
			renamed, err = have, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	if renamed == nil {
		if renamed, err = blog.DecodeUser(op, r.Value); renamed == nil {
			return nil, err
		}
	}
	if !sameName {
		if lost, err := n.Lost(ctx, op, u.UserID, username); err != nil {
			return nil, err
		} else if lost {
			return nil, n.revert(ctx, op, u, renamed)
		}
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

// change returns the patch that gives a user the byline and the bio of another state.
func change(from, to blog.User) (p cosmos.Patch) {
	p.Condition = fmt.Sprintf("from c where c.revision = %d", from.Revision)
	for property := range from.Byline.Changes(to.Byline) {
		stored.SetText(&p, "/"+property.InUser(), property.Value)
	}
	if from.Bio != to.Bio {
		stored.SetText(&p, "/bio", to.Bio)
	}
	p.Increment("/revision", 1)
	return p
}

// revert restores the previous state of a user who lost the new name, and returns Conflict. The attempt does
// not count as a change.
func (n *Names) revert(ctx context.Context, op string, before *blog.UserItem, renamed *blog.User) error {
	p := change(*renamed, before.User)
	p.Set("/formerUsernames", append([]string{}, before.FormerUsernames...))
	p.Set("/renames", append([]blog.Date{}, before.Renames...))
	if renamed.DisplayName != before.DisplayName || renamed.AvatarURL != before.AvatarURL {
		p.Set("/changes", append([]blog.Date{}, before.Changes...))
	}
	_, err := n.Users.Patch(ctx, stored.Key(before.UserID, before.UserID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusPreconditionFailed) { // renamed again
		return stored.Error(op, err)
	}
	return ErrTaken(op)
}

// formerUsernames returns the former names to keep for a user who is renamed, and those to free.
func formerUsernames(u *blog.UserItem, username string) (kept, freed []string) {
	taken := Key(username)
	if Key(u.Username) == taken {
		return u.FormerUsernames, nil
	}
	for _, name := range append(slices.Clone(u.FormerUsernames), u.Username) {
		if k := Key(name); k != taken && (k != Key(u.Username) || name == u.Username) {
			kept = append(kept, name)
		}
	}
	extra := max(0, len(kept)-maxFormer)
	return kept[extra:], kept[:extra]
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
