package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"byline/store/cosmos"
)

// compare looks at one suspect as things are now. It returns nil if all is well.
func (s *Store) compare(ctx context.Context, d Difference) (*Difference, error) {
	if !d.addressable() {
		d.Have, d.Want = "", "unknown: such an id cannot be read"
		return &d, nil
	}
	wrong, err := s.compareAs(ctx, d)
	switch {
	case errors.Is(err, errMalformed):
		d.Have, d.Want = "", "unknown: the source is malformed"
		return &d, nil
	case CodeOf(err) == Conflict:
		d.Have, d.Want = "", "unknown: the post does not stand still"
		return &d, nil
	}
	return wrong, err
}

// addressable reports whether what differs can be asked for.
func (d *Difference) addressable() bool {
	return addressable(d.Partition) && (d.Kind == Username || addressable(d.ID)) // a name's ID is its owner
}

func (s *Store) compareAs(ctx context.Context, d Difference) (*Difference, error) {
	switch d.Kind {
	case CopyOfPost:
		return s.compareCopy(ctx, s.background.users, d)
	case FeedEntry:
		return s.compareFeedEntry(ctx, d)
	case Count:
		return s.compareCount(ctx, d)
	case Name:
		return s.compareName(ctx, d)
	case Username:
		return s.compareUsername(ctx, d)
	}
	return nil, &Error{Code: Internal, Op: "verify", Err: fmt.Errorf("unknown kind %q", d.Kind)}
}

// sourceOf reads a post, also a tombstone; nil if there is none.
func (s *Store) sourceOf(ctx context.Context, id string) (*Post, error) {
	raw, err := readItem(ctx, "verify", s.background.posts, key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return decodeChangedPost("verify", raw)
}

// What there is in the place of something, if it is not there or cannot be read.
const (
	absent     = "absent"
	unreadable = "malformed"
)

// readCopy describes a copy, and returns its revision and the ETag of what is in its
// place, "" if that is nothing.
func readCopy(ctx context.Context, c *cosmos.Container, partition, id string) (have string, revision int64, etag cosmos.ETag, err error) {
	r, err := c.Read(ctx, key(partition, id))
	if err != nil {
		return "", 0, "", cosmosError("verify", err)
	}
	if r.Value == nil {
		return absent, 0, "", nil
	}
	item, ok, err := decode[shortItem]("verify", typeOfCopies(c, partition), r.Value)
	switch {
	case err != nil:
		return unreadable, 0, r.ETag, nil
	case !ok:
		return absent, 0, r.ETag, nil
	}
	return describe(item), item.Revision, r.ETag, nil
}

// belongs reports whether a post's copy, or its tombstone, may be in a partition.
func (s *Store) belongs(source *Post, c *cosmos.Container, partition string) bool {
	if c == s.background.feed {
		return source != nil && slices.Contains(s.feedPartitions, partition)
	}
	return source != nil && source.AuthorID == partition
}

func (s *Store) compareCopy(ctx context.Context, c *cosmos.Container, d Difference) (*Difference, error) {
	have, revision, _, err := readCopy(ctx, c, d.Partition, d.ID)
	if err != nil {
		return nil, err
	}
	source, err := s.sourceOf(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if s.belongs(source, c, d.Partition) && !source.deleted {
		d.Want = describe(summaryIn(source, c, d.Partition))
		if d.revision == 0 {
			d.revision = source.Revision
		} else if d.revision <= revision && revision < source.Revision {
			return nil, nil // written since, and on its way again
		}
	}
	if d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// describe is all of a copy that comes from its source, in short.
func describe(item shortItem) string {
	item.InputDigest = ""
	sum := digest(string(encode(item)))
	return fmt.Sprintf("revision %d, %x", item.Revision, sum[:4])
}

// compareFeedEntry compares an entry with its post. A post that is not among the newest need
// not be there unless older ones are, but what is there must be true.
func (s *Store) compareFeedEntry(ctx context.Context, d Difference) (*Difference, error) {
	wrong, err := s.compareCopy(ctx, s.background.feed, d)
	if wrong == nil || err != nil || wrong.Have != absent {
		return wrong, err
	}
	source, err := s.sourceOf(ctx, d.ID)
	if source == nil || source.deleted || err != nil {
		return nil, err
	}
	entries, err := s.feedEntries(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n >= feedServed && newestFirst(entryOf(source), entries[min(n, FeedKept)-1]) > 0 {
		return nil, nil
	}
	return wrong, nil
}

// countOf counts what is in a post's partition while the post, or its tombstone,
// does not change.
func (s *Store) countOf(ctx context.Context, id string) (post *Post, comments, likes int32, err error) {
	const op = "count comments and likes"
	for range 10 {
		before, err := s.sourceOf(ctx, id)
		if before == nil || err != nil {
			return nil, 0, 0, err
		}
		types, err := readPages[envelope](ctx, op, s.background.posts, cosmos.Query{Partition: id,
			Text: "SELECT c.type FROM c WHERE c.type IN ('comment', 'like') AND NOT IS_DEFINED(c.deleted)"})
		if err != nil {
			return nil, 0, 0, err
		}
		comments, likes = 0, 0
		for _, t := range types {
			if t.Type == typeComment {
				comments++
			} else {
				likes++
			}
		}
		after, err := s.sourceOf(ctx, id)
		if err != nil {
			return nil, 0, 0, err
		}
		if after != nil && after.Revision == before.Revision {
			return after, comments, likes, nil
		}
	}
	return nil, 0, 0, &Error{Code: Conflict, Op: op, Err: errors.New("the post does not stand still")}
}

func (s *Store) compareCount(ctx context.Context, d Difference) (*Difference, error) {
	p, comments, likes, err := s.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return nil, err
	}
	there := fmt.Sprintf("%d comments, %d likes", comments, likes)
	if d.Have, d.Want = fmt.Sprintf("%d comments, %d likes", p.CommentCount, p.LikeCount), there; p.deleted {
		d.Have, d.Want = there, "0 comments, 0 likes"
	}
	if d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}

// readAuthored reads an item of a post's partition; nil if it is not there.
func (s *Store) readAuthored(ctx context.Context, d Difference) (*authored, error) {
	raw, err := readItem(ctx, "verify", s.background.posts, key(d.Partition, d.ID))
	if raw == nil || err != nil {
		return nil, err
	}
	var item authored
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, &Error{Code: Internal, Op: "verify", Err: fmt.Errorf("%w: %w", errMalformed, err)}
	}
	if item.Deleted {
		return nil, nil
	}
	return &item, nil
}

func (s *Store) compareName(ctx context.Context, d Difference) (*Difference, error) {
	item, err := s.readAuthored(ctx, d)
	if item == nil || err != nil {
		return nil, err
	}
	u, err := readUser(ctx, "verify", s.background.users, item.UserID)
	if u == nil || err != nil || u.Username == item.Username {
		return nil, err
	}
	d.Have, d.Want = item.Username, u.Username
	return &d, nil
}

// released says of a reservation that it is going to expire.
const released = ", released"

// compareUsername compares a reservation with its owner, whose id is the
// difference's ID. One that somebody may be about to use is left alone, and so is
// one that was released.
func (s *Store) compareUsername(ctx context.Context, d Difference) (*Difference, error) {
	raw, err := readItem(ctx, "verify", s.background.users, key(d.Partition, d.Partition))
	if err != nil {
		return nil, err
	}
	u, err := readUser(ctx, "verify", s.background.users, d.ID)
	if err != nil {
		return nil, err
	}
	carries := u != nil && usernameKey(u.Username) == d.Partition
	d.Have, d.Want = "nobody", "nobody"
	if carries {
		d.Want = d.ID
	}
	if raw != nil {
		r, _, err := decode[usernameItem]("verify", typeUsername, raw)
		if err != nil {
			d.Have = unreadable
			return &d, nil
		}
		if d.Have = r.OwnerID; r.TTL > 0 {
			d.Have += released
		}
		switch {
		case carries:
		case r.OwnerID != d.ID, r.TTL > 0, r.young(s.o.Clock()):
			return nil, nil
		case r.Leaving:
			d.Want = d.ID + released
		}
	}
	if d.Have == d.Want {
		return nil, nil
	}
	return &d, nil
}
