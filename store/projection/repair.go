package projection

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
