package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"byline/store/cosmos"
)

// Repair mends one difference that Verify has found, as things are now: what has
// become equal meanwhile is left alone. Every write is conditional on what was
// read, so that it may run beside instances that serve, and be interrupted. What
// cannot be mended is a Conflict: a name that two users carry, and what is derived
// from an item that cannot be read.
func (s *Store) Repair(ctx context.Context, d Difference) error {
	const op = "repair"
	ctx = s.account.Begin(ctx, Repair)
	for range 10 {
		now, err := s.compare(ctx, d)
		if now == nil || err != nil {
			return err
		}
		d = *now
		if !d.addressable() {
			return &Error{Code: Conflict, Op: op, Message: fmt.Sprintf("%s %q cannot be addressed", d.Kind, d.ID)}
		}
		switch d.Kind {
		case CopyOfPost:
			err = s.repairCopy(ctx, s.background.users, d)
		case FeedEntry:
			err = s.repairFeedEntry(ctx, d)
		case Count:
			err = s.repairCount(ctx, d)
		case Name:
			err = s.repairName(ctx, d)
		case Username:
			err = s.repairUsername(ctx, d)
		}
		if errors.Is(err, errMalformed) {
			return &Error{Code: Conflict, Op: op, Message: fmt.Sprintf("the source of %s %s cannot be read", d.Kind, d.ID), Err: err}
		}
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound) {
			if err != nil {
				return cosmosError(op, err)
			}
			continue // and see whether it is equal now
		}
	}
	return &Error{Code: Conflict, Op: op, Message: fmt.Sprintf("%s %s keeps changing", d.Kind, d.ID)}
}

// repairCopy makes a copy equal to its source, whatever revision it claims.
func (s *Store) repairCopy(ctx context.Context, c *cosmos.Container, d Difference) error {
	have, _, etag, err := readCopy(ctx, c, d.Partition, d.ID)
	if err != nil {
		return err
	}
	source, err := s.sourceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	switch belongs := s.belongs(source, c, d.Partition); {
	case belongs && etag != "": // a tombstone, too: it keeps changes that arrive late from bringing the post back
		_, err = c.Replace(ctx, key(d.Partition, d.ID), encode(summaryIn(source, c, d.Partition)), etag)
	case belongs && !source.deleted:
		err = c.Create(ctx, d.Partition, encode(summaryIn(source, c, d.Partition)))
	case have != absent:
		err = c.Delete(ctx, key(d.Partition, d.ID), etag)
	}
	return err
}

func (s *Store) repairFeedEntry(ctx context.Context, d Difference) error {
	if err := s.repairCopy(ctx, s.background.feed, d); err != nil {
		return err
	}
	if !slices.Contains(s.feedPartitions, d.Partition) {
		return nil
	}
	entries, err := s.feedEntries(ctx, d.Partition)
	if err != nil {
		return err
	}
	if len(entries) < feedRefill {
		return s.refillFeed(ctx, d.Partition, entries)
	}
	return s.trimFeed(ctx, d.Partition, entries)
}

func (s *Store) repairCount(ctx context.Context, d Difference) error {
	p, comments, likes, err := s.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return err
	}
	if p.deleted {
		return cascade(ctx, s.background.posts, d.ID, math.MaxInt)
	}
	var o cosmos.Patch
	o.Condition = fmt.Sprintf("from c where c.revision = %d", p.Revision)
	o.Set("/commentCount", comments)
	o.Set("/likeCount", likes)
	o.Increment("/revision", 1)
	_, err = s.background.posts.Patch(ctx, key(d.ID, d.ID), o)
	return err
}

func (s *Store) repairName(ctx context.Context, d Difference) error {
	item, err := s.readAuthored(ctx, d)
	if item == nil || err != nil {
		return err
	}
	u, err := readUser(ctx, "repair", s.background.users, item.UserID)
	if u == nil || err != nil {
		return err
	}
	return s.renameItem(ctx, *item, u.Username)
}

// repairUsername reserves the name that a user carries, or releases one that its
// owner does not.
func (s *Store) repairUsername(ctx context.Context, d Difference) error {
	const op = "repair username"
	// The reservation first: whoever reserves it before changing the user changes it.
	r, err := s.background.users.Read(ctx, key(d.Partition, d.Partition))
	if err != nil {
		return err
	}
	var item usernameItem
	if r.Value != nil {
		var malformed error
		if item, _, malformed = decode[usernameItem](op, typeUsername, r.Value); malformed != nil {
			return s.background.users.Delete(ctx, key(d.Partition, d.Partition), r.ETag) // and look again
		}
	}
	u, uerr := readUser(ctx, op, s.background.users, d.ID)
	if uerr != nil {
		return uerr
	}
	if u != nil && usernameKey(u.Username) == d.Partition {
		return s.repairReservation(ctx, op, u, &item, r.ETag)
	}
	if r.Value == nil {
		return nil // nobody has it
	}
	if item.OwnerID != d.ID || item.TTL > 0 || item.young(s.o.Clock()) {
		return nil
	}
	_, err = item.release(ctx, s.background.users, r.ETag, s.o.Clock())
	return err
}

// repairReservation reserves the name that a user carries where there is no
// reservation, or one that is going to expire, or one that another user has left
// over. Another reservation of the user's own stays as it is, also one that is made
// meanwhile.
func (s *Store) repairReservation(ctx context.Context, op string, u *User, have *usernameItem, etag cosmos.ETag) error {
	mine := encode(reservationOf(u.ID, u.Username, s.now()))
	k := usernameKey(u.Username)
	switch {
	case etag == "":
		return s.background.users.Create(ctx, k, mine)
	case have.OwnerID == u.ID && have.TTL <= 0:
		return nil
	case have.OwnerID != u.ID:
		if held, err := have.held(ctx, s.background.users, s.o.Clock()); err != nil {
			return err
		} else if held {
			return errTaken(op)
		}
	}
	_, err := s.background.users.Replace(ctx, key(k, k), mine, etag)
	return err
}
