package projection

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// Repair fixes one difference that Verify has found, if it still exists. Every write is conditional on
// the ETag or revision that was read, so Repair can run beside instances that serve, and be interrupted.
// If two users have one name, the one who owns the reservation keeps it, and the other gets the name with
// four characters of their id appended. For the remaining items of a deleted user or post, Repair
// enqueues a job. Conflict if a difference cannot be fixed: a name is reserved for another user, the text
// of a post is lost, the source is malformed, or the view is of a later version.
func (v *Views) Repair(ctx context.Context, d Difference) error {
	err := v.repair(ctx, d)
	if d.Kind == Username && d.addressable() && blog.CodeOf(err) == blog.Conflict {
		return v.reservations.RenameDuplicate(v.account.Begin(ctx, Repair), d.Partition, d.ID, err)
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
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("%s %q cannot be addressed", d.Kind, d.ID)}
		}
		view, err := v.viewOf(d.Kind)
		if err != nil {
			return err
		}
		err = view.repair(ctx, d)
		if errors.Is(err, blog.ErrMalformed) {
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("the source of %s %s cannot be read", d.Kind, d.ID), Err: err}
		}
		if errors.Is(err, itemjson.ErrLater) {
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("%s %s is of a later version of Byline: repair it with that", d.Kind, d.ID),
				Err:     err}
		}
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound) {
			if err != nil {
				return stored.Error(op, err)
			}
			continue // compare again
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Message: fmt.Sprintf("%s %s keeps changing", d.Kind, d.ID)}
}
