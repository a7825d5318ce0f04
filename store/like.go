package store

import (
	"context"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// likeStore reads and writes likes.
type likeStore struct {
	*base
	authors *authors
	counted *countedWrites
	shown   *shownCounts
}

// Like is one point read. It returns nil if the like does not exist.
func (s *likeStore) Like(ctx context.Context, postID, userID string) (*blog.Like, error) {
	ctx = s.beginRead(ctx, OneLike)
	return cached(ctx, s.posts, postID, "like "+userID, func(ctx context.Context) (*blog.Like, error) {
		const op = "read like"
		if !blog.ValidID(postID) || !blog.ValidID(userID) {
			return nil, nil
		}
		raw, err := stored.Read(ctx, op, s.posts, stored.Key(postID, blog.LikeID(userID)))
		if raw == nil || err != nil {
			return nil, err
		}
		l, err := blog.DecodeLike(op, raw)
		if l != nil {
			s.showLike(l)
		}
		return l, err
	})
}

// Liked reports for each post whether the user likes it, in one request.
func (s *likeStore) Liked(ctx context.Context, userID string, postIDs []string) ([]bool, error) {
	ctx = s.beginRead(ctx, ManyLikes)
	likes, err := cachedMany(ctx, s.posts, postIDs, "like "+userID,
		func(ctx context.Context, postIDs []string) ([]*blog.Like, error) {
			return stored.ReadAll(ctx, "read likes", s.posts, postIDs,
				func(postID string) cosmos.Key {
					return stored.Key(postID, blog.LikeID(userID))
				},
				blog.DecodeLike, func(l *blog.Like) string { return l.PostID })
		})
	if err != nil {
		return nil, err
	}
	liked := make([]bool, len(likes))
	for i, l := range likes {
		liked[i] = l != nil && !s.deletions.Hides(l.UserID, l.CreatedAt)
	}
	return liked, nil
}

// Likes is Q5: a post's likes, newest first, by one query of the post's partition. The page of an unknown
// post is empty.
func (s *likeStore) Likes(ctx context.Context, postID string, p Paging) (*Page[*blog.Like], error) {
	ctx = s.beginRead(ctx, Likes)
	l := list[blog.Like]{op: "list likes", container: s.posts, key: "postId", partition: postID, typ: blog.TypeLike,
		format: blog.Likes, defaults: blog.Like{PostID: postID}, deletions: s.deletions, show: s.showLike,
		position: func(l *blog.Like) (blog.Date, string) { return l.CreatedAt, blog.LikeID(l.UserID) }}
	p.Order = NewestFirst
	return l.page(ctx, p)
}

// LikePost is C4: one transactional batch that counts the like and creates it. A repetition changes nothing. It
// returns the like and the updated post. NotFound if the post does not exist, Forbidden if the caller has no user yet,
// LimitReached if the post has the maximum number of likes.
func (s *likeStore) LikePost(ctx context.Context, userID, postID string) (*blog.Like, *blog.Post, error) {
	const op = "like post"
	ctx = s.account.Begin(ctx, LikePost)
	if !blog.ValidID(postID) {
		return nil, nil, blog.NoPost(op)
	}
	user, err := s.authors.byline(ctx, op, userID)
	if err != nil {
		return nil, nil, err
	}
	item := blog.LikeItem{Envelope: blog.Envelope{Type: blog.TypeLike}, ID: blog.LikeID(userID),
		Like: blog.Like{PostID: postID, Byline: user, CreatedAt: s.now()}}
	post, exists, err := s.counted.create(ctx, op, postID, item.ID, "/likeCount", blog.Encode(item))
	if exists {
		return s.firstLike(ctx, op, item)
	}
	if stored.Ambiguous(ctx, err) {
		if like, post, readErr := s.firstLike(ctx, op, item); readErr == nil {
			return like, post, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return &item.Like, post, nil
}

// firstLike returns the existing like and its post.
func (s *likeStore) firstLike(ctx context.Context, op string, item blog.LikeItem) (*blog.Like, *blog.Post, error) {
	postRaw, raw, err := s.counted.readPair(ctx, op, item.PostID, item.ID)
	if err != nil {
		return nil, nil, err
	}
	like, err := blog.DecodeLike(op, raw)
	if err != nil {
		return nil, nil, err
	}
	post, err := s.counted.writtenPost(ctx, op, postRaw)
	if (post == nil || like == nil) && err == nil {
		err = blog.NoPost(op)
	}
	return like, post, err
}

// UnlikePost removes a like: one transactional batch deletes it and decrements the count.
// Without a like nothing changes. A like needs no tombstone: lists hide its view, which this process deletes a moment
// later. It returns the updated post. NotFound if the post does not exist.
func (s *likeStore) UnlikePost(ctx context.Context, userID, postID string) (*blog.Post, error) {
	const op = "unlike post"
	ctx = s.account.Begin(ctx, UnlikePost)
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	if _, err := s.authors.byline(ctx, op, userID); err != nil {
		return nil, err
	}
	r, err := batch(ctx, s.posts, postID, func(b *cosmos.Batch) {
		b.Delete(blog.LikeID(userID))
		b.Patch(postID, patchCounter("/likeCount", -1))
	})
	if stored.Ambiguous(ctx, err) {
		like, likeErr := stored.Read(ctx, op, s.posts, stored.Key(postID, blog.LikeID(userID)))
		if post, postErr := s.readPost(ctx, postID); likeErr == nil && postErr == nil && like == nil && post != nil {
			s.shown.noteCounts(ctx, post)
			s.views.DeleteOrphan(blog.TypeLiked, userID, postID)
			return post, nil
		}
	}
	switch {
	case err != nil:
		return nil, stored.Error(op, err)
	case r.Failed == 0 && r.Status == http.StatusNotFound:
		post, err := s.readPost(ctx, postID)
		if post == nil && err == nil {
			err = blog.NoPost(op)
		}
		if err == nil { // the like may have been removed through another instance, or by an earlier attempt
			s.shown.noteCounts(ctx, post)
			s.views.DeleteOrphan(blog.TypeLiked, userID, postID)
		}
		return post, err
	case r.Failed == 1 && (r.Status == http.StatusNotFound || r.Status == http.StatusPreconditionFailed):
		return nil, blog.NoPost(op)
	case r.Failed >= 0:
		return nil, stored.Error(op, r.Err())
	}
	s.views.DeleteOrphan(blog.TypeLiked, userID, postID)
	return s.counted.writtenPost(ctx, op, r.Items[1])
}

// countedWrites writes what is counted on posts: likes and comments.
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
