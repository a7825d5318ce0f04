package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
)

// Repair fixes one difference that Verify has found, if it still exists. Every write is conditional on
// the ETag or revision that was read, so Repair can run beside instances that serve, and be interrupted.
// If two users have one name, the one who owns the reservation keeps it, and the other gets the name with
// four characters of their id appended. For the remaining items of a deleted user or post, Repair
// enqueues a job. Conflict if a difference cannot be fixed: a name is reserved for another user, the text
// of a post is lost, or the source is malformed.
func (v *Views) Repair(ctx context.Context, d Difference) error {
	err := v.repair(ctx, d)
	if d.Kind == Username && d.addressable() && blog.CodeOf(err) == blog.Conflict {
		return v.renameDuplicate(ctx, d, err)
	}
	return err
}

// repair is Repair without the renaming of users, for projections.
func (v *Views) repair(ctx context.Context, d Difference) error {
	const op = "repair"
	ctx = v.account.Begin(ctx, Repair)
	for range 10 {
		now, err := v.compare(ctx, d)
		if now == nil || err != nil {
			return err
		}
		d = *now
		if !d.addressable() {
			return &blog.Error{Code: blog.Conflict, Op: op, Message: fmt.Sprintf("%s %q cannot be addressed", d.Kind, d.ID)}
		}
		switch d.Kind {
		case Summary:
			err = v.repairSummary(ctx, v.users, d)
		case FeedEntry:
			err = v.repairFeedEntry(ctx, d)
		case Count:
			err = v.repairCount(ctx, d)
		case Text:
			err = v.repairText(ctx, d)
		case Name:
			err = v.repairName(ctx, d)
		case Username:
			err = v.repairUsername(ctx, d)
		case Deletion:
			err = v.enqueue(ctx, deleteUserJob, map[string]int64{d.ID: 0})
		}
		if errors.Is(err, blog.ErrMalformed) {
			return &blog.Error{Code: blog.Conflict, Op: op, Message: fmt.Sprintf("the source of %s %s cannot be read", d.Kind, d.ID), Err: err}
		}
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound) {
			if err != nil {
				return blog.CosmosError(op, err)
			}
			continue // compare again
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Message: fmt.Sprintf("%s %s keeps changing", d.Kind, d.ID)}
}

// repairSummary writes the summary of the source, regardless of the revision of the old one.
func (v *Views) repairSummary(ctx context.Context, c *cosmos.Container, d Difference) error {
	have, _, etag, err := readSummary(ctx, c, d.Partition, d.ID)
	if err != nil {
		return err
	}
	source, err := v.sourceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	switch belongs := v.belongs(source, c, d.Partition); {
	case belongs && etag != "": // also a tombstone, so that late changes do not restore the post
		_, err = c.Replace(ctx, blog.Key(d.Partition, d.ID), encodeSummary(source, c, d.Partition), etag)
	case belongs && !source.Tombstone:
		err = c.Create(ctx, d.Partition, encodeSummary(source, c, d.Partition))
	case have != absent:
		err = c.Delete(ctx, blog.Key(d.Partition, d.ID), etag)
	}
	return err
}

func (v *Views) repairFeedEntry(ctx context.Context, d Difference) error {
	if err := v.repairSummary(ctx, v.feed, d); err != nil {
		return err
	}
	if !slices.Contains(v.feedPartitions, d.Partition) {
		return nil
	}
	entries, err := v.feedEntries(ctx, d.Partition)
	if err != nil {
		return err
	}
	if len(entries) < feedRefill {
		return v.refillFeed(ctx, d.Partition, entries)
	}
	return v.trimFeed(ctx, d.Partition, entries)
}

func (v *Views) repairCount(ctx context.Context, d Difference) error {
	p, comments, likes, err := v.countOf(ctx, d.ID)
	if p == nil || err != nil {
		return err
	}
	if p.Tombstone {
		return v.enqueue(ctx, deletePostJob, map[string]int64{d.ID: p.Revision})
	}
	var o cosmos.Patch
	o.Condition = fmt.Sprintf("from c where c.revision = %d", p.Revision)
	o.Set("/commentCount", comments)
	o.Set("/likeCount", likes)
	o.Increment("/revision", 1)
	_, err = v.posts.Patch(ctx, blog.Key(d.ID, d.ID), o)
	return err
}

// repairText moves a long text on a post to a text item, or deletes a text item without a post.
func (v *Views) repairText(ctx context.Context, d Difference) error {
	var b cosmos.Batch
	b.NoItems = true
	var p cosmos.Patch
	var orphan cosmos.Item
	switch {
	case d.Have == textInPost:
		raw, err := blog.ReadItem(ctx, "repair", v.posts, blog.Key(d.ID, d.ID))
		if raw == nil || err != nil {
			return err
		}
		post, err := blog.DecodePost("repair", raw)
		if post == nil || err != nil || post.Truncated || !blog.IsLong(post.Content) {
			return err // compare again
		}
		item, text := blog.NewPostItem(post)
		p.Condition = fmt.Sprintf("from c where c.revision = %d AND NOT IS_DEFINED(c.deleted)", post.Revision)
		p.Set("/content", item.Content)
		p.Set("/textDigest", item.TextDigest)
		b.Patch(d.ID, p)
		b.Upsert(blog.Encode(text))
	case d.Want != absent:
		return &blog.Error{Code: blog.Conflict, Op: "repair", Message: fmt.Sprintf("the text of post %s is lost: only its author can write it again", d.ID)}
	default:
		var err error
		if orphan, err = v.posts.Read(ctx, blog.Key(d.ID, blog.TextID)); orphan.Value == nil || err != nil {
			return err // deleted meanwhile
		}
		// The condition is on the current post: it may have got the text since it was read.
		p.Condition = "from c where IS_DEFINED(c.deleted) OR NOT IS_DEFINED(c.textDigest) OR c.textDigest = ''"
		p.Set("/textDigest", "")
		b.Patch(d.ID, p)
		b.Delete(blog.TextID)
	}
	r, err := v.posts.Batch(ctx, d.ID, &b)
	if err == nil && r.Failed == 0 && r.Status == http.StatusNotFound { // the post does not exist
		return v.posts.Delete(ctx, blog.Key(d.ID, blog.TextID), orphan.ETag)
	}
	if err == nil {
		err = r.Err()
	}
	return err
}

func (v *Views) repairName(ctx context.Context, d Difference) error {
	item, err := v.readAuthored(ctx, d)
	if item == nil || err != nil {
		return err
	}
	u, err := blog.ReadUser(ctx, "repair", v.users, item.UserID)
	if u == nil || err != nil {
		return err
	}
	return v.renameItem(ctx, *item, u.Username)
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
