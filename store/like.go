package store

import (
	"context"
	"net/http"

	"byline/store/cosmos"
)

// Like says that a user likes a post. A user likes a post at most once, so the
// two ids identify it.
type Like struct {
	PostID    string `json:"postId"`
	UserID    string `json:"userId"`
	Username  string `json:"userUsername"`
	CreatedAt Date   `json:"creationDate"`
}

type likeItem struct {
	envelope
	ID string `json:"id"` // likeID(userId)
	Like
}

// likeID is the id of a user's like in the partition of a post.
func likeID(userID string) string { return "like-" + userID }

func decodeLike(op string, raw []byte) (*Like, error) {
	item, ok, err := decode[likeItem](op, typeLike, raw)
	if !ok {
		return nil, err
	}
	return &item.Like, nil
}

// Like reads a like: one point read. It returns nil if there is none.
func (s *Store) Like(ctx context.Context, postID, userID string) (*Like, error) {
	ctx = s.account.Begin(ctx, OneLike)
	return cached(ctx, s.posts, postID, "like "+userID, func(ctx context.Context) (*Like, error) {
		const op = "read like"
		if !validID(postID) || !validID(userID) {
			return nil, nil
		}
		raw, err := readItem(ctx, op, s.posts, key(postID, likeID(userID)))
		if raw == nil || err != nil {
			return nil, err
		}
		return decodeLike(op, raw)
	})
}

// Liked says for each of the posts whether the user likes it, in one request.
func (s *Store) Liked(ctx context.Context, userID string, postIDs []string) ([]bool, error) {
	ctx = s.account.Begin(ctx, ManyLikes)
	what := func(string) string { return "like " + userID }
	likes, err := cachedMany(ctx, s.posts, postIDs, what, func(ctx context.Context, postIDs []string) ([]*Like, error) {
		return readAll(ctx, "read likes", s.posts, postIDs,
			func(postID string) cosmos.Key {
				return key(postID, likeID(userID))
			},
			decodeLike, func(l *Like) string { return l.PostID })
	})
	if err != nil {
		return nil, err
	}
	liked := make([]bool, len(likes))
	for i, l := range likes {
		liked[i] = l != nil
	}
	return liked, nil
}

// Likes is Q5: a post's likes, newest first, by one query of the post's
// partition. A post that does not exist has none.
func (s *Store) Likes(ctx context.Context, postID string, p Paging) (*Page[*Like], error) {
	ctx = s.account.Begin(ctx, Q5)
	l := list[Like]{op: "list likes", container: s.posts, partition: postID, typ: typeLike,
		format: likes, blank: Like{PostID: postID},
		place: func(l *Like) (Date, string) { return l.CreatedAt, likeID(l.UserID) }}
	p.Order = NewestFirst
	return l.page(ctx, p)
}

// likeFields are what a list needs of a like.
const likeFields = "c.userId, c.userUsername, c.creationDate"

func plainLike(p *plain, l *Like) {
	l.UserID, l.Username, l.CreatedAt = p.text("userId"), p.text("userUsername"), p.date("creationDate")
}

// LikePost is C4: one transactional batch that counts the like and creates it,
// after a point read for the user's name. A post that is liked already stays as
// it is. It returns the post as it is afterwards. NotFound without such a post,
// Forbidden if the acting user has no user yet.
func (s *Store) LikePost(ctx context.Context, userID, postID string) (*Like, *Post, error) {
	const op = "like post"
	ctx = s.account.Begin(ctx, C4)
	if !validID(postID) {
		return nil, nil, noPost(op)
	}
	user, err := s.author(ctx, op, userID)
	if err != nil {
		return nil, nil, err
	}
	item := likeItem{envelope: envelope{Type: typeLike}, ID: likeID(userID),
		Like: Like{PostID: postID, UserID: userID, Username: user.Username, CreatedAt: s.now()}}
	post, exists, err := s.createCounted(ctx, op, postID, "/likeCount", encode(item))
	if exists {
		return s.firstLike(ctx, op, item)
	}
	if ambiguous(ctx, err) {
		if like, post, readErr := s.firstLike(ctx, op, item); readErr == nil {
			return like, post, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return &item.Like, post, nil
}

// firstLike returns the like that is there already.
func (s *Store) firstLike(ctx context.Context, op string, item likeItem) (*Like, *Post, error) {
	postRaw, raw, err := s.readPair(ctx, op, item.PostID, item.ID)
	if err != nil {
		return nil, nil, err
	}
	like, err := decodeLike(op, raw)
	if err != nil {
		return nil, nil, err
	}
	post, err := decodePost(op, postRaw)
	if (post == nil || like == nil) && err == nil {
		err = noPost(op)
	}
	return like, post, err
}

// UnlikePost takes a like back: one transactional batch that deletes it and
// counts it off. Without a like the post stays as it is. A like has no copies, so
// that it needs no tombstone. It returns the post as it is afterwards. NotFound
// without such a post.
func (s *Store) UnlikePost(ctx context.Context, userID, postID string) (*Post, error) {
	const op = "unlike post"
	ctx = s.account.Begin(ctx, UnlikePost)
	if !validID(postID) {
		return nil, noPost(op)
	}
	if _, err := s.author(ctx, op, userID); err != nil {
		return nil, err
	}
	items, failed, status, err := batch(ctx, s.posts, postID, func(b *cosmos.Batch) {
		b.Delete(likeID(userID))
		b.Patch(postID, count("/likeCount", -1))
	})
	if ambiguous(ctx, err) {
		like, likeErr := s.Like(ctx, postID, userID)
		if post, postErr := s.readPost(ctx, postID); likeErr == nil && postErr == nil && like == nil && post != nil {
			return post, nil
		}
	}
	switch {
	case err != nil:
		return nil, cosmosError(op, err)
	case failed == 0 && status == http.StatusNotFound:
		post, err := s.readPost(ctx, postID)
		if post == nil && err == nil {
			err = noPost(op)
		}
		return post, err
	case failed == 1 && (status == http.StatusNotFound || status == http.StatusPreconditionFailed):
		return nil, noPost(op)
	case failed >= 0:
		return nil, &Error{Code: codeOfStatus(status), Op: op}
	}
	return decodePost(op, items[1])
}
