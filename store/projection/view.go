package projection

import (
	"context"
	"errors"
	"fmt"

	"byline/store/blog"
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
