package projection

import (
	"context"
	"slices"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
)

// deletePost does a unit of deletePostJob: a unit deletes some of the items of a deleted post. It needs no
// position, as the query does not find deleted items.
func (v *Views) deletePost(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "delete what belonged to a post"
	if !blog.ValidID(j.Subject) {
		return jobs.Step{Done: true}, nil
	}
	d := &deletion{Views: v}
	if _, err := v.posts.ReadPrimary(ctx, stored.Key(j.Subject, j.Subject)); err != nil { // so that the query sees the latest items
		return jobs.Step{}, stored.Error(op, err)
	}
	left, err := d.deletePostItems(ctx, v.posts, j.Subject, time.Now().Add(deletionUnit))
	step := jobs.Step{Items: int(d.done.Load()), Done: !left && err == nil}
	if left && step.Items == 0 {
		step.Wait = contentionWait
	}
	return step, stored.Error(op, err)
}

// deletePostItems deletes comments, likes and the text of a deleted post from the posts container, until the end
// of the unit. It reports whether items that can be deleted are left.
func (d *deletion) deletePostItems(ctx context.Context, c *cosmos.Container, postID string, end time.Time) (left bool, err error) {
	refused := map[string]bool{}
	for {
		found, err := readPages[ownedItem](ctx, "find what belongs to a post", c, cosmos.Query{Partition: postID,
			Text: "SELECT TOP 100 c.id FROM c WHERE c.postId = @post AND c.type IN ('comment', 'like', 'text', 'deletedComment', 'deletedText')"}.With("@post", postID))
		if err != nil {
			return true, err
		}
		found = slices.DeleteFunc(found, func(i ownedItem) bool { return refused[i.ID] })
		if len(found) == 0 {
			return false, nil
		}
		if err := d.deleteBatch(ctx, c, postID, found, refused); err != nil {
			return true, err
		}
		if d.left.Load() || !time.Now().Before(end) {
			return true, nil
		}
	}
}
