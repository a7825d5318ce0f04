package projection

import (
	"context"
	"encoding/json"
	"errors"

	"byline/store/blog"
	"byline/store/username"
)

// usernameView is the view of the reservations of usernames.
type usernameView struct {
	*base
	names    *username.Names
	registry *registry
}

func (u *usernameView) kind() Kind { return Username }

func (u *usernameView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for id, b := range s.users {
		if k := username.Key(b.Username); b.Username != "" && (s.reservations[k] != id || s.released[k]) {
			found = append(found, Difference{Kind: Username, Partition: k, ID: id})
		}
	}
	for k, owner := range s.reservations {
		if b, ok := s.users[owner]; !ok || !s.released[k] && username.Key(b.Username) != k {
			found = append(found, Difference{Kind: Username, Partition: k, ID: owner})
		}
	}
	return found, nil
}

func (u *usernameView) compare(ctx context.Context, d Difference) (_ *Difference, err error) {
	d.Have, d.Want, err = u.names.Compare(ctx, d.Partition, d.ID)
	if d.Have == d.Want || err != nil {
		return nil, err
	}
	return &d, nil
}

func (u *usernameView) repair(ctx context.Context, d Difference) error {
	return u.names.Repair(ctx, d.Partition, d.ID)
}

// sweep handles changes of the users container: it sweeps the reservations. One that changes meanwhile is
// handled again.
func (u *usernameView) sweep(ctx context.Context, items [][]byte) error {
	var reservations []username.Swept
	for _, raw := range items {
		var e blog.Envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Type != blog.TypeUsername || e.Deleted {
			continue // handleUsers skips malformed items
		}
		var r username.Swept
		if err := json.Unmarshal(raw, &r); err != nil {
			u.skip(blog.UsersContainer, raw, err)
			continue
		}
		if r.ID != r.Partition || !blog.Addressable(r.ID) {
			u.skip(blog.UsersContainer, raw, errors.New("malformed id or userId"))
			continue
		}
		if r.TTL > 0 {
			continue // released
		}
		reservations = append(reservations, r)
	}
	released, err := u.names.Sweep(ctx, reservations, u.decodeAnyUser)
	if err != nil {
		return err
	}
	var suspects []Difference // an owner may have taken the name meanwhile
	for _, r := range released {
		suspects = append(suspects, Difference{Kind: Username, Partition: r.ID, ID: r.OwnerID})
	}
	return u.registry.repairAll(ctx, suspects)
}
