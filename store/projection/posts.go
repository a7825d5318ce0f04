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

// projectPosts handles changes of the posts container: it writes the entries in timelines and the summaries of changed
// posts, enqueues jobs that delete what belongs to deleted ones, and corrects bylines that were written during a change
// of them.
func (v *Views) projectPosts(ctx context.Context, items [][]byte) error {
	const op = "project posts"
	posts := map[string]*blog.Post{} // the last change of each post
	var changed []blog.Authored
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
			posts[p.ID] = p
		}
		if !item.Deleted {
			changed = append(changed, item)
		}
	}
	deleted := map[string]int64{} // revisions
	for _, p := range posts {
		if p.Tombstone && !p.Erased() {
			deleted[p.ID] = p.Revision
		}
	}
	if err := v.enqueue(ctx, deletePostJob, deleted); err != nil {
		return err
	}
	if err := v.repairBylines(ctx, changed); err != nil {
		return err
	}
	if err := v.projectTimelines(ctx, posts); err != nil { // before the feed is trimmed
		return err
	}
	if err := v.projectSummaries(ctx, posts); err != nil || !changefeed.Replaying(ctx) {
		return err
	}
	return v.repairReplayed(ctx, posts)
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
