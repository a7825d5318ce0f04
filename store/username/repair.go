package username

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// What Compare returns besides the ids of owners.
const (
	nobody    = "nobody"
	malformed = "malformed"
	expires   = ", released" // after the id of the owner
)

// Compare compares the reservation with the key k to the user userID. have is the owner in the reservation, and want
// the owner that it should have; they are equal if the reservation is correct. If the user has another name, or does
// not exist, a reservation is also correct if it is another user's, if it is young, or if it is released and the user
// exists. Of a user who is being deleted, every reservation is correct.
func (n *Names) Compare(ctx context.Context, k, userID string) (have, want string, err error) {
	raw, err := stored.Read(ctx, "verify", n.Users, stored.Key(k, k))
	if err != nil {
		return "", "", err
	}
	u, state, err := n.owner(ctx, userID)
	if err != nil || state == deleted {
		return "", "", err
	}
	has := u != nil && Key(u.Username) == k
	have, want = nobody, nobody
	if has {
		want = userID
	}
	if raw == nil {
		return have, want, nil
	}
	r, _, err := blog.Decode[Reservation]("verify", blog.TypeUsername, raw)
	if err != nil {
		return malformed, want, nil
	}
	if have = r.OwnerID; r.TTL > 0 {
		have += expires
	}
	switch {
	case has:
	case r.OwnerID != userID, r.TTL > 0 && state != absent, r.Young(n.Clock()):
		return "", "", nil
	case r.Leaving && state != absent:
		want = userID + expires
	}
	return have, want, nil
}

// ownerState is the state of an owner.
type ownerState int

const (
	absent  ownerState = iota
	deleted            // being deleted
	present            // also if malformed
)

// owner reads an owner: nil unless they are live.
func (n *Names) owner(ctx context.Context, id string) (*blog.User, ownerState, error) {
	if !blog.ValidID(id) {
		return nil, absent, nil
	}
	raw, err := stored.Read(ctx, "verify", n.Users, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, absent, err
	}
	item, live, err := blog.Decode[blog.UserItem]("verify", blog.TypeUser, raw)
	switch {
	case err != nil:
		return nil, present, err
	case live:
		return &item.User, present, nil
	case item.Type == blog.TypeUser && item.Deleted:
		return nil, deleted, nil
	}
	return nil, present, nil
}

// Repair reserves the name of a user, or releases one whose owner has another. k and userID are those of Compare.
func (n *Names) Repair(ctx context.Context, k, userID string) error {
	const op = "repair username"
	// The reservation first: a rename writes it before it changes the user.
	r, err := n.Users.Read(ctx, stored.Key(k, k))
	if err != nil {
		return err
	}
	var item Reservation
	if r.Value != nil {
		var ok bool
		if item, ok, _ = blog.Decode[Reservation](op, blog.TypeUsername, r.Value); !ok { // malformed
			return n.Users.Delete(ctx, stored.Key(k, k), r.ETag) // compare again
		}
	}
	u, uerr := stored.ReadUser(ctx, op, n.Users, userID)
	if uerr != nil {
		return uerr
	}
	if u != nil && Key(u.Username) == k {
		return n.repairOf(ctx, op, u, &item, r.ETag)
	}
	if r.Value == nil {
		return nil
	}
	if item.OwnerID != userID || item.Young(n.Clock()) {
		return nil
	}
	if u == nil { // without an owner, no grace period
		return n.Users.Delete(ctx, stored.Key(k, k), r.ETag)
	}
	if item.TTL > 0 {
		return nil
	}
	_, err = n.release(ctx, &item, r.ETag)
	return err
}

// repairOf reserves the user's name if the reservation is missing, expires, or is abandoned by
// another user. It keeps a valid reservation of the user.
func (n *Names) repairOf(ctx context.Context, op string, u *blog.User, have *Reservation, etag cosmos.ETag) error {
	mine := New(u.UserID, u.Username, n.now())
	k := Key(u.Username)
	switch {
	case etag == "":
		return n.Users.Create(ctx, k, blog.Encode(mine))
	case have.OwnerID == u.UserID && have.TTL <= 0:
		return nil
	case have.OwnerID != u.UserID:
		if held, err := n.held(ctx, have); err != nil {
			return err
		} else if held {
			return ErrTaken(op)
		}
	}
	_, err := n.Replace(ctx, have, etag, mine)
	return err
}

// RenameDuplicate gives a user another name if another user owns the reservation, with the key k, of the same name:
// four characters of the id are appended. Otherwise it returns the conflict.
func (n *Names) RenameDuplicate(ctx context.Context, k, userID string, conflict error) error {
	const op = "separate usernames"
	raw, err := stored.Read(ctx, op, n.Users, stored.Key(k, k))
	if raw == nil || err != nil {
		return cmp.Or(err, conflict)
	}
	r, _, err := blog.Decode[Reservation](op, blog.TypeUsername, raw)
	if err != nil {
		return conflict
	}
	users, err := stored.ReadUsers(ctx, n.Users, []string{userID, r.OwnerID}, blog.DecodeUser)
	if errors.Is(err, blog.ErrMalformed) {
		return conflict
	}
	if err != nil {
		return err
	}
	u, owner := users[0], users[1]
	if u == nil || owner == nil || u.UserID == owner.UserID || Key(u.Username) != r.ID || Key(owner.Username) != r.ID {
		return conflict
	}
	const digits = 4 // of the id
	for rest := u.UserID; len(rest) >= digits; rest = rest[digits:] {
		name := u.Username[:min(len(u.Username), maxLength-1-digits)] + "-" + rest[:digits]
		mine, err := n.reserveFree(ctx, op, u.UserID, name)
		if err != nil {
			return err
		}
		if !mine {
			continue
		}
		var p cosmos.Patch
		p.Condition = fmt.Sprintf("from c where c.revision = %d", u.Revision)
		p.Set("/username", name)
		p.Increment("/revision", 1)
		_, err = n.Users.Patch(ctx, stored.Key(u.UserID, u.UserID), p)
		if cosmos.HasStatus(err, http.StatusNotFound) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return stored.Error(op, err)
		}
		n.Logger.Warn("two users had one username: renamed the one without the reservation",
			"user", u.UserID, "old", u.Username, "new", name)
		return nil
	}
	return conflict
}

// reserveFree reserves a name that nobody has. It reports whether the user owns it, possibly since an earlier attempt.
func (n *Names) reserveFree(ctx context.Context, op, userID, name string) (bool, error) {
	k := Key(name)
	err := n.Users.Create(ctx, k, blog.Encode(New(userID, name, n.now())))
	if !cosmos.HasStatus(err, http.StatusConflict) {
		return err == nil, stored.Error(op, err)
	}
	raw, err := stored.Read(ctx, op, n.Users, stored.Key(k, k))
	if raw == nil || err != nil {
		return false, err
	}
	r, _, err := blog.Decode[Reservation](op, blog.TypeUsername, raw)
	return err == nil && r.OwnerID == userID && r.TTL == 0, err
}
