package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// released marks a reservation that expires.
const released = ", released"

// compareUsername compares a reservation with its owner, whose id is the difference's ID. Young
// reservations are correct, and so are released ones of existing users and all of users who are being
// deleted.
func (v *Views) compareUsername(ctx context.Context, d Difference) (*Difference, error) {
	raw, err := blog.ReadItem(ctx, "verify", v.users, blog.Key(d.Partition, d.Partition))
	if err != nil {
		return nil, err
	}
	u, err := blog.ReadUser(ctx, "verify", v.users, d.ID)
	if err != nil {
		return nil, err
	}
	owner := liveUser
	if u == nil {
		if owner, err = v.stateOf(ctx, d.ID); owner == deletedUser || err != nil {
			return nil, err
		}
	}
	carries := u != nil && blog.UsernameKey(u.Username) == d.Partition
	d.Have, d.Want = "nobody", "nobody"
	if carries {
		d.Want = d.ID
	}
	if raw != nil {
		r, _, err := blog.Decode[blog.Reservation]("verify", blog.TypeUsername, raw)
		if err != nil {
			d.Have = unreadable
			return &d, nil
		}
		if d.Have = r.OwnerID; r.TTL > 0 {
			d.Have += released
		}
		switch {
		case carries:
		case r.OwnerID != d.ID, r.TTL > 0 && owner != noUser, r.Young(v.o.Clock()):
			return nil, nil
		case r.Leaving && owner != noUser:
			d.Want = d.ID + released
		}
	}
	if d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// repairUsername reserves the name of a user, or releases one whose owner has another.
func (v *Views) repairUsername(ctx context.Context, d Difference) error {
	const op = "repair username"
	// The reservation first: a rename writes it before it changes the user.
	r, err := v.users.Read(ctx, blog.Key(d.Partition, d.Partition))
	if err != nil {
		return err
	}
	var item blog.Reservation
	if r.Value != nil {
		var malformed error
		if item, _, malformed = blog.Decode[blog.Reservation](op, blog.TypeUsername, r.Value); malformed != nil {
			return v.users.Delete(ctx, blog.Key(d.Partition, d.Partition), r.ETag) // compare again
		}
	}
	u, uerr := blog.ReadUser(ctx, op, v.users, d.ID)
	if uerr != nil {
		return uerr
	}
	if u != nil && blog.UsernameKey(u.Username) == d.Partition {
		return v.repairReservation(ctx, op, u, &item, r.ETag)
	}
	if r.Value == nil {
		return nil
	}
	if item.OwnerID != d.ID || item.Young(v.o.Clock()) {
		return nil
	}
	if u == nil { // without an owner, no grace period
		return v.users.Delete(ctx, blog.Key(d.Partition, d.Partition), r.ETag)
	}
	if item.TTL > 0 {
		return nil
	}
	_, err = item.Release(ctx, v.users, r.ETag, v.o.Clock())
	return err
}

// repairReservation reserves the user's name if the reservation is missing, expires, or is abandoned by
// another user. It keeps a valid reservation of the user.
func (v *Views) repairReservation(ctx context.Context, op string, u *blog.User, have *blog.Reservation, etag cosmos.ETag) error {
	mine := blog.Encode(blog.NewReservation(u.ID, u.Username, v.now()))
	k := blog.UsernameKey(u.Username)
	switch {
	case etag == "":
		return v.users.Create(ctx, k, mine)
	case have.OwnerID == u.ID && have.TTL <= 0:
		return nil
	case have.OwnerID != u.ID:
		if held, err := have.Held(ctx, v.users, v.o.Clock()); err != nil {
			return err
		} else if held {
			return blog.ErrTaken(op)
		}
	}
	_, err := v.users.Replace(ctx, blog.Key(k, k), mine, etag)
	return err
}

// renameDuplicate renames the user of a difference if another user owns the reservation of the same name.
// Otherwise it returns the conflict.
func (v *Views) renameDuplicate(ctx context.Context, d Difference, conflict error) error {
	const op = "separate usernames"
	ctx = v.account.Begin(ctx, Repair)
	raw, err := blog.ReadItem(ctx, op, v.users, blog.Key(d.Partition, d.Partition))
	if raw == nil || err != nil {
		return cmp.Or(err, conflict)
	}
	r, _, err := blog.Decode[blog.Reservation](op, blog.TypeUsername, raw)
	if err != nil {
		return conflict
	}
	users, err := blog.ReadUsers(ctx, v.users, []string{d.ID, r.OwnerID}, blog.DecodeUser)
	if errors.Is(err, blog.ErrMalformed) {
		return conflict
	}
	if err != nil {
		return err
	}
	u, owner := users[0], users[1]
	if u == nil || owner == nil || u.ID == owner.ID || blog.UsernameKey(u.Username) != r.ID || blog.UsernameKey(owner.Username) != r.ID {
		return conflict
	}
	const digits, longest = 4, 30 // of the id, and of a username
	for rest := u.ID; len(rest) >= digits; rest = rest[digits:] {
		name := u.Username[:min(len(u.Username), longest-1-digits)] + "-" + rest[:digits]
		mine, err := v.reserve(ctx, op, u.ID, name)
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
		_, err = v.users.Patch(ctx, blog.Key(u.ID, u.ID), p)
		if cosmos.HasStatus(err, http.StatusNotFound) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return blog.CosmosError(op, err)
		}
		v.o.Logger.Warn("two users had one username: renamed the one without the reservation", logUser, u.ID, logOld, u.Username, logNew, name)
		return nil
	}
	return conflict
}

// reserve reserves a name for a user. It reports whether the user owns it, possibly since an earlier attempt.
func (v *Views) reserve(ctx context.Context, op, userID, name string) (bool, error) {
	k := blog.UsernameKey(name)
	err := v.users.Create(ctx, k, blog.Encode(blog.NewReservation(userID, name, v.now())))
	if !cosmos.HasStatus(err, http.StatusConflict) {
		return err == nil, blog.CosmosError(op, err)
	}
	raw, err := blog.ReadItem(ctx, op, v.users, blog.Key(k, k))
	if raw == nil || err != nil {
		return false, err
	}
	r, _, err := blog.Decode[blog.Reservation](op, blog.TypeUsername, raw)
	return err == nil && r.OwnerID == userID && r.TTL == 0, err
}
