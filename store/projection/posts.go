package projection

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
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
	for _, view := range v.all() {
		if view.project == nil {
			continue
		}
		if err := view.project(ctx, c); err != nil {
			return err
		}
	}
	if !changefeed.Replaying(ctx) {
		return nil
	}
	return v.repairReplayed(ctx, c.posts)
}

// decodeChange decodes the fields that all items of the posts container share. It skips a
// malformed item, which would otherwise stop the projections.
func (v *Views) decodeChange(raw []byte) (blog.Authored, bool) {
	var item blog.Authored
	err := blog.Unmarshal(raw, &item, blog.Lenient)
	if err == nil && item.Type != blog.TypePost && item.Type != blog.TypeComment && item.Type != blog.TypeLike &&
		item.Type != blog.TypeText {
		err = fmt.Errorf("unknown type %q", item.Type)
	}
	erased := item.Type == blog.TypePost && item.Deleted && item.UserID == "" // see blog.PostTombstone
	if err == nil && (!blog.ValidID(item.ID) || !blog.ValidID(item.PostID) || !blog.ValidID(item.UserID) && !erased) {
		err = fmt.Errorf("malformed id, postId or userId")
	}
	if err != nil {
		v.skip(blog.PostsContainer, raw, err)
		return item, false
	}
	return item, true
}

// refused reports whether Cosmos DB permanently refuses a write: for example, the revision is not a number,
// or the logical partition is full; or whether the item is of a later version and must not be replaced.
func refused(err error) bool {
	return err != nil && (errors.Is(err, itemjson.ErrLater) || cosmos.ErrorOf(err).PartitionFull() ||
		cosmos.HasStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge))
}
