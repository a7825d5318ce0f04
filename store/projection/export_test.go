package projection

import (
	"context"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/jobs"
)

// ProjectSummaries projects posts as the handler of the change feed does.
func (v *Views) ProjectSummaries(ctx context.Context, posts ...*blog.Post) error {
	changed := map[string]*blog.Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	if err := v.summaries.project(ctx, postChanges{posts: changed}); err != nil {
		return err
	}
	return v.ProjectFeed(ctx, posts)
}

// ProjectSearchItems projects the search items of posts as the handler of the change feed does.
func (v *Views) ProjectSearchItems(ctx context.Context, posts ...*blog.Post) error {
	changed := map[string]*blog.Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	return v.search.project(ctx, postChanges{posts: changed})
}

// RefillFeed refills the feed.
func (v *Views) RefillFeed(ctx context.Context) error {
	entries, err := v.partitions.entries(ctx, blog.TypePost)
	if err != nil {
		return err
	}
	return v.feedEnd.refill(ctx, blog.TypePost, entries)
}

// ReadFull does what Run does first.
func (v *Views) ReadFull(ctx context.Context) error { return v.feedEnd.tryReadFull(ctx) }

// DeleteUser does a unit of a job that deletes a user.
func (v *Views) DeleteUser(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	return v.userDeletions.delete(ctx, j)
}

// Rename does a unit of a job that renames a user.
func (v *Views) Rename(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	return v.bylines.rename(ctx, j)
}

// DeletePost does a unit of a job that deletes the comments, likes and text of a deleted post.
func (v *Views) DeletePost(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	return v.postDeletions.delete(ctx, j)
}

// WriteFollowing does what Run does after UpdateFollowing.
func (v *Views) WriteFollowing(ctx context.Context, item *blog.FollowItem) error {
	return v.follows.writeFresh(ctx, item)
}

// Work returns the work of each kind of job.
func (v *Views) Work() map[string]jobs.Work { return v.jobWork() }

// Handlers returns the handlers of the change feed by the name of their processor, and the containers of the changes.
func (v *Views) Handlers() (handlers map[string]changefeed.Handler, sources map[string]string) {
	handlers, sources = map[string]changefeed.Handler{}, map[string]string{}
	for _, p := range v.processors.all() {
		handlers[p.options.Name], sources[p.options.Name] = p.handle, p.source.Name()
	}
	return handlers, sources
}

// DeleteOrphanNow is what Run does with an item of DeleteOrphan.
func (v *Views) DeleteOrphanNow(ctx context.Context, typ, userID, postID string) error {
	return v.likes.deleteOrphan(ctx, orphan{typ: typ, userID: userID, postID: postID})
}
