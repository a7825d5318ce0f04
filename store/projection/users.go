package projection

import (
	"context"
	"errors"
	"time"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/username"
)

// projectUsers handles changes of the users container. It enqueues a job for a user whose byline has changed or
// who was deleted, and reserves the name if its reservation is missing: the sweep may have released it while a
// process was paused within a rename. In a rebuild it also repairs summaries and reservations.
func (v *Views) projectUsers(ctx context.Context, items [][]byte) error {
	const op = "project users"
	renamed, deleted := map[string]int64{}, map[string]int64{} // generations of jobs
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
		if err == nil && !blog.ValidID(u.UserID) {
			err = errors.New("malformed userId")
		}
		if err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if !live {
			deleted[u.UserID] = deletionGeneration(u)
			continue
		}
		if !u.Spread() && (!changefeed.Replaying(ctx) || v.renamedRecently(u)) {
			renamed[u.UserID] = max(renamed[u.UserID], u.Revision)
		}
		suspects = append(suspects, Difference{Kind: Username, Partition: username.Key(u.Username), ID: u.UserID})
	}
	if err := v.registry.repairAll(ctx, suspects); err != nil {
		return err
	}
	if err := v.enqueue(ctx, deleteUserJob, deleted); err != nil {
		return err
	}
	return v.enqueue(ctx, renameJob, renamed)
}

// deletionGeneration returns the generation of a deletion job. It increases with later deletions of the same
// user: revisions restart when the subject registers again.
func deletionGeneration(u blog.UserItem) int64 {
	return max(u.Revision, u.DeletedAt.Time().UnixMilli())
}

// renamesReplayed is the age from which on a replay enqueues no job for a byline: the user's items are replayed,
// too, and their bylines compared. Later changes may not have been handled yet.
const renamesReplayed = 24 * time.Hour

func (v *Views) renamedRecently(u blog.UserItem) bool {
	for _, dates := range [][]blog.Date{u.Renames, u.Changes} {
		if len(dates) > 0 && v.o.Clock().Sub(dates[len(dates)-1].Time()) < renamesReplayed {
			return true
		}
	}
	return false
}
