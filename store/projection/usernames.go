package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/sleep"
)

// sweepUsernames handles changes of the users container: it releases or deletes reservations
// that are older than the grace period and whose owners have another name, or do not exist. A
// reservation that changes meanwhile is handled again.
func (v *Views) sweepUsernames(ctx context.Context, items [][]byte) error {
	var all []reservedName
	for _, raw := range items {
		var e blog.Envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Type != blog.TypeUsername || e.Deleted {
			continue // projectUsers skips malformed items
		}
		var r reservedName
		if err := json.Unmarshal(raw, &r); err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if r.ID != r.Partition || !blog.Addressable(r.ID) {
			v.skip(blog.UsersContainer, raw, errors.New("malformed id or userId"))
			continue
		}
		if r.TTL > 0 {
			continue // released
		}
		all = append(all, r)
	}
	unused, _, err := v.unused(ctx, all)
	if err != nil {
		return err
	}
	// The others are in use, and stay so until they are written again.
	all = slices.DeleteFunc(all, func(r reservedName) bool { return !r.Leaving && !slices.Contains(unused, r) })
	if len(all) == 0 {
		return nil
	}
	newest := slices.MaxFunc(all, func(a, b reservedName) int { return cmp.Compare(a.Written, b.Written) })
	// This clock may be behind: a reservation that was seen a grace period ago is old enough.
	for seen := v.o.Clock(); newest.Young(v.o.Clock()) && v.o.Clock().Sub(seen) < blog.ReservationGrace; {
		if !sleep.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
	unused, gone, err := v.unused(ctx, all)
	if err != nil {
		return err
	}
	var released []Difference
	for _, r := range unused {
		r.Leaving = r.Leaving && !gone[r.OwnerID] // a deleted user does not come back to the name
		done, err := r.Release(ctx, v.users, r.ETag, v.o.Clock())
		if err != nil {
			return err
		}
		if done {
			v.o.Logger.Info("left-over username released", logUser, r.OwnerID)
			released = append(released, Difference{Kind: Username, Partition: r.ID, ID: r.OwnerID})
		}
	}
	return v.repairAll(ctx, released) // an owner may have taken the name meanwhile
}

// reservedName is a reservation with its ETag.
type reservedName struct {
	blog.Reservation
	ETag cosmos.ETag `json:"_etag"`
}

// unused returns the reservations whose owners have another name or do not exist. gone has the owners of all
// reservations who do not exist or are being deleted: a deletion keeps the last name until its end.
func (v *Views) unused(ctx context.Context, all []reservedName) (unused []reservedName, gone map[string]bool, err error) {
	var owners []string
	for _, r := range all {
		owners = append(owners, r.OwnerID)
	}
	gone = map[string]bool{}
	users, err := blog.ReadUsers(ctx, v.users, owners, func(op string, raw []byte) (*blog.User, error) {
		var item blog.UserItem
		if blog.Unmarshal(raw, &item, blog.Lenient) == nil && item.Type == blog.TypeUser && item.Deleted {
			gone[item.ID] = true
			return &item.User, nil
		}
		return v.decodeAnyUser(op, raw)
	})
	if err != nil {
		return nil, nil, err
	}
	for i, r := range all {
		u := users[i]
		if u == nil {
			gone[r.OwnerID] = true
		}
		if u == nil || u.Username != "" && blog.UsernameKey(u.Username) != r.ID {
			unused = append(unused, r)
		}
	}
	return unused, gone, nil
}
