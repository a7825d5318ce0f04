package store

import (
	"context"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// countedWrites writes what is counted on posts: comments and likes.
type countedWrites struct {
	*base
	shown *shownCounts
}

// create creates the item id in a post's partition and counts it on the post, in one
// transactional batch. It returns the updated post. If the item exists, nothing changes and
// exists is true. LimitReached if the counter is at its limit.
func (w *countedWrites) create(
	ctx context.Context, op, postID, id, counter string, item []byte,
) (post *blog.Post, exists bool, err error) {
	r, err := batch(ctx, w.posts, postID, func(b *cosmos.Batch) {
		b.Patch(postID, patchCounter(counter, 1))
		b.Create(item)
	})
	switch {
	case err != nil:
		return nil, false, stored.Error(op, err)
	case r.Failed == 0 && r.Status == http.StatusNotFound:
		return nil, false, blog.NoPost(op)
	case r.Failed == 0 && r.Status == http.StatusPreconditionFailed:
		exists, err = w.countError(ctx, op, postID, id)
		return nil, exists, err
	case r.Failed == 1 && r.Status == http.StatusConflict:
		return nil, true, nil
	case r.Failed >= 0:
		return nil, false, stored.Error(op, r.Err())
	}
	post, err = w.writtenPost(ctx, op, r.Items[0])
	return post, false, err
}

// countError explains why the counting patch failed: it reports whether the item exists, and returns the error
// if it does not.
func (w *countedWrites) countError(ctx context.Context, op, postID, id string) (exists bool, err error) {
	post, err := w.readPost(ctx, postID)
	if post == nil && err == nil {
		err = blog.NoPost(op)
	}
	if err != nil {
		return false, err
	}
	item, err := stored.Read(ctx, op, w.posts, stored.Key(postID, id))
	if item != nil || err != nil {
		return true, err
	}
	return false, &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonFull,
		Message: "this post has as many comments or likes as it can have"}
}

// patchCounter returns a patch that adds to a counter of a post, up to its limit, and increments its
// revision.
func patchCounter(path string, by int64) cosmos.Patch {
	var p cosmos.Patch
	p.Condition = "from c where c.type = '" + blog.TypePost + "' AND NOT IS_DEFINED(c.deleted)"
	if by > 0 {
		p.Condition += fmt.Sprintf(" AND c.%s < %d", path[1:], maxCounted[path])
	}
	p.Increment(path, by)
	p.Increment("/revision", 1)
	return p
}

// readPair reads a post and another item of its partition in one snapshot.
func (w *countedWrites) readPair(ctx context.Context, op, postID, id string) (post, other []byte, err error) {
	r, err := batch(ctx, w.posts, postID, func(b *cosmos.Batch) {
		b.Read(postID)
		b.Read(id)
	})
	switch {
	case err != nil:
		return nil, nil, stored.Error(op, err)
	case r.Failed == 0 && r.Status == http.StatusNotFound:
		return nil, nil, blog.NoPost(op)
	case r.Failed == 1 && r.Status == http.StatusNotFound:
		return nil, nil, &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
			Message: "another request is changing the same item; try again"}
	case r.Failed >= 0:
		return nil, nil, stored.Error(op, r.Err())
	}
	return r.Items[0], r.Items[1], nil
}

// writtenPost is decodePost for a post whose counts were just written.
func (w *countedWrites) writtenPost(ctx context.Context, op string, raw []byte) (*blog.Post, error) {
	p, err := w.decodePost(op, raw)
	if p != nil && err == nil {
		w.shown.noteCounts(ctx, p)
	}
	return p, err
}
