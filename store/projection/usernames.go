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
)

// sweepUsernames handles changes of the users container: it releases or removes
// reservations that are older than the grace and whose owners do not carry the names.
// What changes meanwhile is handled again.
func (v *Views) sweepUsernames(ctx context.Context, items [][]byte) error {
	var all []reservedName
	for _, raw := range items {
		var e blog.Envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Type != blog.TypeUsername || e.Deleted {
			continue // projectUsers sets aside what cannot be read
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
	unused, err := v.unused(ctx, all)
	if err != nil {
		return err
	}
	// Those that are carried stay so until they are written again.
	all = slices.DeleteFunc(all, func(r reservedName) bool { return !r.Leaving && !slices.Contains(unused, r) })
	if len(all) == 0 {
		return nil
	}
	newest := slices.MaxFunc(all, func(a, b reservedName) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) }).CreatedAt
	// However wrong a date may be, what was seen as long ago as the grace is old enough.
	for seen := v.now(); newest > blog.GraceBegan(v.o.Clock()) && seen > blog.GraceBegan(v.o.Clock()); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	if unused, err = v.unused(ctx, all); err != nil {
		return err
	}
	for _, r := range unused {
		done, err := r.Release(ctx, v.users, r.ETag, v.o.Clock())
		if err != nil {
			return err
		}
		if done {
			v.o.Logger.Info("left-over username released", logItem, r.ID, logUser, r.OwnerID)
		}
	}
	return nil
}

// reservedName is a reservation as the change feed shows it.
type reservedName struct {
	blog.Reservation
	ETag cosmos.ETag `json:"_etag"`
}

// unused returns the reservations whose owners do not carry the names, as far as
// that can be known.
func (v *Views) unused(ctx context.Context, all []reservedName) ([]reservedName, error) {
	var owners []string
	for _, r := range all {
		owners = append(owners, r.OwnerID)
	}
	users, err := blog.ReadUsers(ctx, v.users, owners, v.decodeAnyUser)
	if err != nil {
		return nil, err
	}
	var unused []reservedName
	for i, r := range all {
		if u := users[i]; u == nil || u.Username != "" && blog.UsernameKey(u.Username) != r.ID {
			unused = append(unused, r)
		}
	}
	return unused, nil
}
