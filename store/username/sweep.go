package username

import (
	"cmp"
	"context"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
	"byline/store/stored"
)

// Swept is a reservation in the change feed, with its ETag.
type Swept struct {
	Reservation
	ETag cosmos.ETag `json:"_etag"`
}

// Sweep releases or deletes the reservations that are no longer used, because their owners have another username or do
// not exist. It first waits until the newest of them is older than the grace period. It returns the reservations that
// it released. decode decodes an owner; for a malformed one it returns a user without a username.
func (n *Names) Sweep(
	ctx context.Context, all []Swept, decode func(op string, raw []byte) (*blog.User, error),
) (released []Swept, err error) {
	unused, _, err := n.unused(ctx, all, decode)
	if err != nil {
		return nil, err
	}
	// The others are in use, and stay so until they are written again.
	all = slices.DeleteFunc(slices.Clone(all), func(r Swept) bool { return !r.Leaving && !slices.Contains(unused, r) })
	if len(all) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(all, func(a, b Swept) int { return cmp.Compare(a.Written, b.Written) })
	// This clock may be behind: a reservation that was seen a grace period ago is old enough.
	for seen := n.Clock(); newest.Young(n.Clock()) && n.Clock().Sub(seen) < Grace; {
		if !sleep.For(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
	unused, gone, err := n.unused(ctx, all, decode)
	if err != nil {
		return nil, err
	}
	for _, r := range unused {
		r.Leaving = r.Leaving && !gone[r.OwnerID] // a deleted user does not come back to the name
		done, err := n.release(ctx, &r.Reservation, r.ETag)
		if err != nil {
			return released, err
		}
		if done {
			n.Logger.Info("left-over username released", "user", r.OwnerID)
			released = append(released, r)
		}
	}
	return released, nil
}

// unused returns the reservations whose owners have another name or do not exist. gone has the owners of all
// reservations who do not exist or are being deleted: a deletion keeps the last name until its end.
func (n *Names) unused(
	ctx context.Context, all []Swept, decode func(op string, raw []byte) (*blog.User, error),
) (unused []Swept, gone map[string]bool, err error) {
	var owners []string
	for _, r := range all {
		owners = append(owners, r.OwnerID)
	}
	gone = map[string]bool{}
	users, err := stored.ReadUsers(ctx, n.Users, owners, func(op string, raw []byte) (*blog.User, error) {
		var item blog.UserItem
		if blog.Unmarshal(raw, &item, blog.Lenient) == nil && item.Type == blog.TypeUser && item.Deleted {
			gone[item.UserID] = true
			return &item.User, nil
		}
		return decode(op, raw)
	})
	if err != nil {
		return nil, nil, err
	}
	for i, r := range all {
		u := users[i]
		if u == nil {
			gone[r.OwnerID] = true
		}
		if u == nil || u.Username != "" && Key(u.Username) != r.ID {
			unused = append(unused, r)
		}
	}
	return unused, gone, nil
}
