package projection

import (
	"context"

	"byline/store/blog"
	"byline/store/changefeed"
)

// projectPosts handles changes of the posts container: it enqueues jobs that delete what belongs to deleted posts, and
// applies the changes to the views.
func (v *Views) projectPosts(ctx context.Context, items [][]byte) error {
	const op = "project posts"
	c := changes{posts: map[string]*blog.Post{}}
	for _, raw := range items {
		item, ok := v.decodeChange(raw)
		if !ok {
			continue
		}
		if item.Type == blog.TypeText {
			continue // its post changes with it
		}
		if item.Type == blog.TypePost {
			p, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				v.skip(blog.PostsContainer, raw, err)
				continue
			}
			c.posts[p.ID] = p
		}
		if !item.Deleted {
			c.authored = append(c.authored, item)
		}
	}
	deleted := map[string]int64{} // revisions
	for _, p := range c.posts {
		if p.Tombstone && !p.Erased() {
			deleted[p.ID] = p.Revision
		}
	}
	if err := v.enqueue(ctx, deletePostJob, deleted); err != nil {
		return err
	}
	for _, view := range v.registry.views {
		if projector, ok := view.(projector); ok {
			if err := projector.project(ctx, c); err != nil {
				return err
			}
		}
	}
	if !changefeed.Replaying(ctx) {
		return nil
	}
	return v.registry.repairReplayed(ctx, c.posts)
}
