package projection

import (
	"context"
	"encoding/json"
	"errors"

	"byline/store/blog"
	"byline/store/username"
)

// usernames is the view of the reservations of usernames.
func (v *Views) usernames() view {
	return view{
		kind: Username,
		scanned: func(_ context.Context, read *verifier) (found []Difference, _ error) {
			for id, b := range read.users {
				if k := username.Key(b.Username); b.Username != "" && (read.reservations[k] != id || read.released[k]) {
					found = append(found, Difference{Kind: Username, Partition: k, ID: id})
				}
			}
			for k, owner := range read.reservations {
				if b, ok := read.users[owner]; !ok || !read.released[k] && username.Key(b.Username) != k {
					found = append(found, Difference{Kind: Username, Partition: k, ID: owner})
				}
			}
			return found, nil
		},
		compare: func(ctx context.Context, d Difference) (_ *Difference, err error) {
			d.Have, d.Want, err = v.reservations.Compare(ctx, d.Partition, d.ID)
			if d.Have == d.Want || err != nil {
				return nil, err
			}
			return &d, nil
		},
		repair: func(ctx context.Context, d Difference) error { return v.reservations.Repair(ctx, d.Partition, d.ID) },
	}
}

// sweepUsernames handles changes of the users container: it sweeps the reservations. One that changes meanwhile is
// handled again.
func (v *Views) sweepUsernames(ctx context.Context, items [][]byte) error {
	var all []username.Swept
	for _, raw := range items {
		var e blog.Envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Type != blog.TypeUsername || e.Deleted {
			continue // projectUsers skips malformed items
		}
		var r username.Swept
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
	released, err := v.reservations.Sweep(ctx, all, v.decodeAnyUser)
	if err != nil {
		return err
	}
	var suspects []Difference // an owner may have taken the name meanwhile
	for _, r := range released {
		suspects = append(suspects, Difference{Kind: Username, Partition: r.ID, ID: r.OwnerID})
	}
	return v.repairAll(ctx, suspects)
}
