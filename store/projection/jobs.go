package projection

import (
	"context"

	"golang.org/x/sync/errgroup"

	"byline/store/jobs"
	"byline/store/stored"
)

// The kinds of jobs: work that may take too long for the handler of a page.
const (
	renameJob     = "rename"     // sets the byline of a user on their posts, comments and likes
	deletePostJob = "deletePost" // deletes the comments, likes and text of a deleted post
	deleteUserJob = "deleteUser" // deletes all items of a deleted user, and the user
)

// jobWork returns the work of each kind of job.
func (v *Views) jobWork() map[string]jobs.Work {
	return map[string]jobs.Work{renameJob: v.rename, deletePostJob: v.deletePost, deleteUserJob: v.deleteUser}
}

// enqueue enqueues jobs of a kind, given the revision of each subject that needs one. They are written before
// the checkpoint of the change, so that a crash cannot lose them.
func (v *Views) enqueue(ctx context.Context, kind string, subjects map[string]int64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for subject, revision := range subjects {
		g.Go(func() error { return v.jobs.Enqueue(ctx, kind, subject, revision) })
	}
	return stored.Error("enqueue job", g.Wait())
}

// Jobs returns the unfinished jobs.
func (v *Views) Jobs(ctx context.Context) ([]jobs.Job, error) {
	all, err := v.jobs.List(ctx)
	return all, stored.Error("list jobs", err)
}
