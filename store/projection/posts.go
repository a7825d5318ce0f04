package projection

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// projectPosts handles changes of the posts container: it brings the short forms
// of changed posts to their author's partition and to the feed, and mends names
// that were written just as their owner was renamed.
func (v *Views) projectPosts(ctx context.Context, items [][]byte) error {
	const op = "project posts"
	posts := map[string]*blog.Post{} // of many changes to one post the last counts
	var changed []blog.Authored
	for _, raw := range items {
		item, ok := v.decodeChange(blog.PostsContainer, raw)
		if !ok {
			continue
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
	for _, p := range posts {
		if p.Tombstone {
			if err := cascade(ctx, v.posts, p.ID, math.MaxInt); err != nil {
				return err
			}
		}
	}
	if err := v.repairNames(ctx, changed); err != nil {
		return err
	}
	if err := v.projectSummaries(ctx, posts); err != nil || !changefeed.Replaying(ctx) {
		return err
	}
	return v.repairReplayed(ctx, posts)
}

// decodeChange reads what every item of the posts container has. An item that
// cannot be read is set aside: it would stop the projections for ever.
func (v *Views) decodeChange(container string, raw []byte) (blog.Authored, bool) {
	var item blog.Authored
	err := blog.Unmarshal(raw, &item, blog.Lenient)
	if err == nil && item.Type != blog.TypePost && item.Type != blog.TypeComment && item.Type != blog.TypeLike {
		err = fmt.Errorf("unknown type %q", item.Type)
	}
	if err == nil && (!blog.ValidID(item.ID) || !blog.ValidID(item.PostID) || !blog.ValidID(item.UserID)) {
		err = fmt.Errorf("malformed id, postId or userId")
	}
	if err != nil {
		v.skip(container, raw, err)
		return item, false
	}
	return item, true
}

// cascade deletes what belongs to a deleted post, in batches of at most 100, so
// that it may stop anywhere and go on later.
func cascade(ctx context.Context, c *cosmos.Container, postID string, batches int) error {
	const op = "delete what belonged to a post"
	for range batches {
		items, err := readPages[blog.Authored](ctx, op, c, cosmos.Query{Text: "SELECT TOP 100 c.id FROM c WHERE c.type IN ('comment', 'like')", Partition: postID})
		if len(items) == 0 || err != nil {
			return err
		}
		var b cosmos.Batch
		for _, item := range items {
			b.Delete(item.ID)
		}
		r, err := c.Batch(ctx, postID, &b)
		if err != nil {
			return blog.CosmosError(op, err)
		}
		if r.Failed >= 0 && r.Status != http.StatusNotFound { // deleted meanwhile: query again
			return &blog.Error{Code: blog.CodeOfStatus(r.Status), Op: op}
		}
	}
	return nil
}

// mendNames compares the author's name on every changed item with the name that
// the author has now. They differ on what was written just before a rename and
// arrived just after its sweep.
func (v *Views) repairNames(ctx context.Context, items []blog.Authored) error {
	var ids []string
	seen := map[string]bool{}
	for _, item := range items {
		if !seen[item.UserID] {
			seen[item.UserID] = true
			ids = append(ids, item.UserID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	users, err := blog.ReadUsers(ctx, v.users, ids, v.decodeAnyUser)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for i, u := range users {
		if u != nil && u.Username != "" {
			names[ids[i]] = u.Username
		}
	}
	for _, item := range items {
		if name, ok := names[item.UserID]; ok && name != item.Username {
			err := v.renameItem(ctx, item, name)
			if refused(err) {
				v.skip(blog.PostsContainer, blog.Encode(item), err)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// refused reports whether an item cannot be renamed: its revision, say, is no number.
func refused(err error) bool { return cosmos.HasStatus(err, http.StatusBadRequest) }

// renameItem puts the author's name on a post, comment or like, if the item is
// still what was read. An item that has changed meanwhile comes by again: its
// change is in the feed.
func (v *Views) renameItem(ctx context.Context, item blog.Authored, name string) error {
	p := cosmos.Patch{IfMatch: cosmos.ETag(item.ETag)}
	p.Set("/userUsername", name)
	if item.Type == blog.TypePost {
		p.Increment("/revision", 1)
	}
	_, err := v.posts.Patch(ctx, blog.Key(item.PostID, item.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return blog.CosmosError("rename item", err)
	}
	return nil
}
