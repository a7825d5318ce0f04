package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
)

// compare compares a possible difference with its source again. It returns nil if they match.
func (v *Views) compare(ctx context.Context, d Difference) (*Difference, error) {
	if !d.addressable() {
		d.Have, d.Want = "", "unknown: the id cannot be used in a request"
		return &d, nil
	}
	wrong, err := v.compareAs(ctx, d)
	switch {
	case errors.Is(err, blog.ErrMalformed):
		d.Have, d.Want = "", "unknown: the source is malformed"
		return &d, nil
	case blog.CodeOf(err) == blog.Conflict:
		d.Have, d.Want = "", "unknown: the post keeps changing"
		return &d, nil
	}
	return wrong, err
}

func (v *Views) compareAs(ctx context.Context, d Difference) (*Difference, error) {
	switch d.Kind {
	case Summary:
		return v.compareSummary(ctx, v.users, d)
	case FeedEntry:
		return v.compareFeedEntry(ctx, d)
	case Count:
		return v.compareCount(ctx, d)
	case Text:
		return v.compareText(ctx, d)
	case Name:
		return v.compareName(ctx, d)
	case Username:
		return v.compareUsername(ctx, d)
	case Deletion:
		return v.compareDeletion(ctx, d)
	}
	return nil, &blog.Error{Code: blog.Internal, Op: "verify", Err: fmt.Errorf("unknown kind %q", d.Kind)}
}

// sourceOf reads a post or its tombstone. It returns nil if there is neither.
func (v *Views) sourceOf(ctx context.Context, id string) (*blog.Post, error) {
	raw, err := blog.ReadItem(ctx, "verify", v.posts, blog.Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return blog.DecodePostOrTombstone("verify", raw)
}

// Values of Difference.Have for a missing and a malformed item.
const (
	absent     = "absent"
	unreadable = "malformed"
)

// userState is the state of a user item.
type userState int

const (
	noUser      userState = iota
	deletedUser           // a tombstone: a job deletes what the user has written
	liveUser              // or a malformed one
)

// stateOf reads a user.
func (v *Views) stateOf(ctx context.Context, id string) (userState, error) {
	if !blog.ValidID(id) {
		return noUser, nil
	}
	raw, err := blog.ReadItem(ctx, "verify", v.users, blog.Key(id, id))
	var e blog.AnyItem
	switch {
	case raw == nil || err != nil:
		return noUser, err
	case blog.Unmarshal(raw, &e, blog.Lenient) == nil && e.Type == blog.TypeUser && e.Deleted:
		return deletedUser, nil
	}
	return liveUser, nil
}

// hasJob reports whether a job exists.
func (v *Views) hasJob(ctx context.Context, kind, subject string) (bool, error) {
	id := kind + "." + subject
	raw, err := blog.ReadItem(ctx, "verify", v.leases, blog.Key(id, id))
	return raw != nil, err
}

// deletionPending reports whether a job deletes what belongs to a deleted post.
func (v *Views) deletionPending(ctx context.Context, postID, authorID string) (bool, error) {
	if exists, err := v.hasJob(ctx, deletePostJob, postID); exists || err != nil {
		return exists, err
	}
	state, err := v.stateOf(ctx, authorID)
	return state == deletedUser, err
}

// readSummary returns a digest of a summary, its revision, and the ETag of the item, "" if it does not
// exist. A tombstone is absent, with its revision.
func readSummary(ctx context.Context, c *cosmos.Container, partition, id string) (have string, revision int64, etag cosmos.ETag, err error) {
	r, err := c.Read(ctx, blog.Key(partition, id))
	if err != nil {
		return "", 0, "", blog.CosmosError("verify", err)
	}
	if r.Value == nil {
		return absent, 0, "", nil
	}
	item, ok, err := blog.Decode[blog.SummaryItem]("verify", typeIn(c, partition), r.Value)
	switch {
	case err != nil:
		return unreadable, 0, r.ETag, nil
	case !ok:
		return absent, item.Revision, r.ETag, nil
	}
	return describe(item), item.Revision, r.ETag, nil
}

// belongs reports whether a post has a summary, or its tombstone, in a partition.
func (v *Views) belongs(source *blog.Post, c *cosmos.Container, partition string) bool {
	if c == v.feed {
		return source != nil && slices.Contains(v.feedPartitions, partition)
	}
	return source != nil && source.AuthorID == partition
}

func (v *Views) compareSummary(ctx context.Context, c *cosmos.Container, d Difference) (*Difference, error) {
	have, revision, _, err := readSummary(ctx, c, d.Partition, d.ID)
	if err != nil {
		return nil, err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = have, absent
	if v.belongs(source, c, d.Partition) && !source.Tombstone {
		d.Want = describe(summaryIn(source, c, d.Partition))
		if d.revision == 0 {
			d.revision = source.Revision
		} else if d.revision <= revision && revision < source.Revision {
			return nil, nil // updated since, and the next update is under way
		}
	}
	if d.Have == d.Want {
		return nil, nil
	}
	author := d.Partition
	if c == v.feed {
		if author = ""; source != nil {
			author = source.AuthorID
		}
	}
	if state, err := v.stateOf(ctx, author); state == deletedUser || err != nil {
		return nil, err
	}
	return &d, nil
}

// describe returns a digest of a summary.
func describe(item blog.SummaryItem) string {
	item.InputDigest = ""
	sum := blog.Digest(string(blog.Encode(item)))
	return fmt.Sprintf("revision %d, %x", item.Revision, sum[:4])
}

// compareFeedEntry compares an entry with its post. A post that is not among the newest may be missing
// unless the feed has older ones.
func (v *Views) compareFeedEntry(ctx context.Context, d Difference) (*Difference, error) {
	wrong, err := v.compareSummary(ctx, v.feed, d)
	if wrong == nil || err != nil || wrong.Have != absent {
		return wrong, err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if source == nil || source.Tombstone || err != nil {
		return nil, err
	}
	entries, err := v.feedEntries(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n >= blog.FeedServed && newestFirst(entryOf(source), entries[min(n, blog.FeedKept)-1]) > 0 {
		return nil, nil
	}
	return wrong, nil
}

// countOf counts the comments and likes of a post or tombstone. It counts again if the revision changes
// meanwhile.
func (v *Views) countOf(ctx context.Context, id string) (post *blog.Post, comments, likes int32, err error) {
	const op = "count comments and likes"
	for range 10 {
		before, err := v.sourceOf(ctx, id)
		if before == nil || err != nil {
			return nil, 0, 0, err
		}
		types, err := readPages[blog.Envelope](ctx, op, v.posts, cosmos.Query{Partition: id,
			Text: "SELECT c.type FROM c WHERE c.postId = @post AND c.type IN ('comment', 'like') AND NOT IS_DEFINED(c.deleted)"}.With("@post", id))
		if err != nil {
			return nil, 0, 0, err
		}
		comments, likes = 0, 0
		for _, t := range types {
			if t.Type == blog.TypeComment {
				comments++
			} else {
				likes++
			}
		}
		after, err := v.sourceOf(ctx, id)
		if err != nil {
			return nil, 0, 0, err
		}
		if after != nil && after.Revision == before.Revision {
			return after, comments, likes, nil
		}
	}
	return nil, 0, 0, &blog.Error{Code: blog.Conflict, Op: op, Err: errors.New("the post keeps changing")}
}

func (v *Views) compareCount(ctx context.Context, d Difference) (*Difference, error) {
	p, comments, likes, err := v.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return nil, err
	}
	there := fmt.Sprintf("%d comments, %d likes", comments, likes)
	if d.Have, d.Want = fmt.Sprintf("%d comments, %d likes", p.CommentCount, p.LikeCount), there; p.Tombstone {
		d.Have, d.Want = there, "0 comments, 0 likes"
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if p.Tombstone {
		if deleting, err := v.deletionPending(ctx, p.ID, p.AuthorID); deleting || err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// Values of Difference.Have and Want of a text.
const (
	textInPost = "on the post"
	textOfPost = "text "
)

// compareText compares a post with its text item. The difference's ID is the post's.
func (v *Views) compareText(ctx context.Context, d Difference) (*Difference, error) {
	const op = "verify"
	rawText, err := blog.ReadItem(ctx, op, v.posts, blog.Key(d.ID, blog.TextID))
	if err != nil {
		return nil, err
	}
	raw, err := blog.ReadItem(ctx, op, v.posts, blog.Key(d.ID, d.ID))
	if err != nil {
		return nil, err
	}
	var post blog.PostItem
	if raw != nil {
		if post, _, err = blog.Decode[blog.PostItem](op, blog.TypePost, raw); err != nil {
			return nil, err
		}
	}
	d.Have, d.Want = absent, absent
	if rawText != nil {
		text, ok, err := blog.Decode[blog.TextItem](op, blog.TypeText, rawText)
		switch {
		case err != nil:
			d.Have = unreadable
		case ok:
			d.Have = textOfPost + text.Digest
		}
	}
	switch {
	case post.Deleted:
	case post.TextDigest != "":
		d.Want = textOfPost + post.TextDigest
	case blog.IsLong(post.Content):
		d.Have, d.Want = textInPost, textOfPost+blog.NewText(d.ID, post.AuthorID, post.Content).Digest
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if post.Deleted {
		if deleting, err := v.deletionPending(ctx, d.ID, post.AuthorID); deleting || err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// readAuthored reads an item of a post's partition. It returns nil if it does not exist or is
// deleted.
func (v *Views) readAuthored(ctx context.Context, d Difference) (*blog.Authored, error) {
	raw, err := blog.ReadItem(ctx, "verify", v.posts, blog.Key(d.Partition, d.ID))
	if raw == nil || err != nil {
		return nil, err
	}
	var item blog.Authored
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "verify", Err: fmt.Errorf("%w: %w", blog.ErrMalformed, err)}
	}
	if item.Deleted {
		return nil, nil
	}
	return &item, nil
}

func (v *Views) compareName(ctx context.Context, d Difference) (*Difference, error) {
	item, err := v.readAuthored(ctx, d)
	if item == nil || err != nil {
		return nil, err
	}
	u, err := blog.ReadUser(ctx, "verify", v.users, item.UserID)
	if u == nil || err != nil || u.Username == item.Username {
		return nil, err
	}
	d.Have, d.Want = item.Username, u.Username
	return &d, nil
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

// compareDeletion checks that a deleted user, whose id is the difference's ID, has a job.
func (v *Views) compareDeletion(ctx context.Context, d Difference) (*Difference, error) {
	state, err := v.stateOf(ctx, d.ID)
	if state != deletedUser || err != nil {
		return nil, err
	}
	exists, err := v.hasJob(ctx, deleteUserJob, d.ID)
	if exists || err != nil {
		return nil, err
	}
	d.Have, d.Want = "no job", "a job that deletes the rest"
	return &d, nil
}
