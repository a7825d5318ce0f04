package projection

import (
	"context"
	"errors"

	"byline/store/blog"
	"byline/store/changefeed"
)

// projectUsers handles changes of the users container. It enqueues a job for a user who may have been
// renamed, or who was deleted, and reserves the name if its reservation is missing: the sweep may
// have released it while a process paused in the middle of a rename. In a rebuild it also
// repairs summaries and reservations.
func (v *Views) projectUsers(ctx context.Context, items [][]byte) error {
	const op = "project users"
	renamed, deleted := map[string]int64{}, map[string]int64{} // revisions
	var suspects []Difference
	for _, raw := range items {
		var e blog.AnyItem
		err := blog.Unmarshal(raw, &e, blog.Lenient)
		if err == nil && e.Type == "" {
			err = errors.New("no type")
		}
		if err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if e.Type != blog.TypeUser {
			if changefeed.Replaying(ctx) {
				suspects = append(suspects, suspectOf(e.Envelope, raw)...)
			}
			continue
		}
		u, live, err := blog.Decode[blog.UserItem](op, blog.TypeUser, raw)
		if err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if !live {
			deleted[u.ID] = u.Revision
			continue
		}
		if u.Revision > 1 { // a new user has written nothing
			renamed[u.ID] = max(renamed[u.ID], u.Revision)
		}
		suspects = append(suspects, Difference{Kind: Username, Partition: blog.UsernameKey(u.Username), ID: u.ID})
	}
	if err := v.repairAll(ctx, suspects); err != nil {
		return err
	}
	if err := v.enqueue(ctx, deleteUserJob, deleted); err != nil {
		return err
	}
	return v.enqueue(ctx, renameJob, renamed)
}
