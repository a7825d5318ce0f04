package store

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"byline/store/cosmos"
)

// Comment is what somebody says under a post.
type Comment struct {
	ID             string `json:"id"`
	PostID         string `json:"postId"`
	AuthorID       string `json:"userId"`
	AuthorUsername string `json:"userUsername"`
	Content        string `json:"content"`
	CreatedAt      Date   `json:"creationDate"`
	UpdatedAt      *Date  `json:"editDate,omitempty"` // nil: never edited
}

type commentItem struct {
	envelope
	Comment
	InputDigest string `json:"inputDigest,omitempty"`
}

func decodeComment(op string, raw []byte) (*Comment, error) {
	item, ok, err := decode[commentItem](op, typeComment, raw)
	if !ok {
		return nil, err
	}
	return &item.Comment, nil
}

// Comment reads a comment: one point read. It returns nil if there is none.
func (s *Store) Comment(ctx context.Context, postID, id string) (*Comment, error) {
	ctx = s.account.Begin(ctx, OneComment)
	return cached(ctx, s.posts, postID, "comment "+id, func(ctx context.Context) (*Comment, error) { return s.readComment(ctx, postID, id) })
}

// readComment is Comment, never from memory.
func (s *Store) readComment(ctx context.Context, postID, id string) (*Comment, error) {
	const op = "read comment"
	if !validID(postID) || !validID(id) {
		return nil, nil
	}
	raw, err := readItem(ctx, op, s.posts, key(postID, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return decodeComment(op, raw)
}

// Comments is Q4: a post's comments, by one query of the post's partition. A post
// that does not exist has none.
func (s *Store) Comments(ctx context.Context, postID string, p Paging) (*Page[*Comment], error) {
	ctx = s.account.Begin(ctx, Q4)
	switch p.Order {
	case "":
		p.Order = NewestFirst
	case NewestFirst, OldestFirst:
	default:
		return nil, invalid("list comments", "order", "order must be %s or %s", NewestFirst, OldestFirst)
	}
	l := list[Comment]{op: "list comments", container: s.posts, partition: postID, typ: typeComment,
		format: comments, blank: Comment{PostID: postID},
		place: func(c *Comment) (Date, string) { return c.CreatedAt, c.ID }}
	return l.page(ctx, p)
}

// commentFields are what a list needs of a comment.
const commentFields = "c.id, c.userId, c.userUsername, c.content, c.creationDate, c.editDate"

func plainComment(p *plain, c *Comment) {
	c.ID, c.AuthorID, c.AuthorUsername = p.text("id"), p.text("userId"), p.text("userUsername")
	c.Content, c.CreatedAt, c.UpdatedAt = p.text("content"), p.date("creationDate"), p.dateOrNil("editDate")
}

// NewComment is a comment to create.
type NewComment struct {
	AuthorID string // the acting user
	PostID   string
	Content  string
	Key      string // the idempotency key, or ""
}

// Validate returns all that is wrong with the input, as Errors that are joined: one for
// each field. What PostID names is not looked at.
func (n NewComment) Validate() error {
	const op = "create comment"
	return errors.Join(checkComment(op, n.Content), checkKey(op, n.Key))
}

// CreateComment is C3: one transactional batch that counts the comment and
// creates it, after a point read for the author's name. It returns the post as it
// is afterwards. NotFound without such a post, Forbidden if the author has no user
// yet, Conflict if the idempotency key was used for another comment on the post.
func (s *Store) CreateComment(ctx context.Context, n NewComment) (*Comment, *Post, error) {
	const op = "create comment"
	ctx = s.account.Begin(ctx, C3)
	if err := n.Validate(); err != nil {
		return nil, nil, err
	}
	if !validID(n.PostID) {
		return nil, nil, noPost(op)
	}
	author, err := s.author(ctx, op, n.AuthorID)
	if err != nil {
		return nil, nil, err
	}
	item := commentItem{envelope: envelope{Type: typeComment}, InputDigest: inputDigest(n.Key, n.Content),
		Comment: Comment{ID: createID(n.Key, typeComment, author.ID, n.PostID), PostID: n.PostID, AuthorID: author.ID,
			AuthorUsername: author.Username, Content: n.Content, CreatedAt: s.now()}}
	post, exists, err := s.createCounted(ctx, op, n.PostID, "/commentCount", encode(item))
	if exists {
		return s.firstComment(ctx, op, item)
	}
	if ambiguous(ctx, err) {
		if comment, post, readErr := s.firstComment(ctx, op, item); readErr == nil {
			return comment, post, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return &item.Comment, post, nil
}

// firstComment returns the comment that an earlier attempt at creating item made.
func (s *Store) firstComment(ctx context.Context, op string, item commentItem) (*Comment, *Post, error) {
	postRaw, raw, err := s.readPair(ctx, op, item.PostID, item.ID)
	if err != nil {
		return nil, nil, err
	}
	have, ok, err := decode[commentItem](op, typeComment, raw)
	if err != nil {
		return nil, nil, err
	}
	if !ok || have.InputDigest != item.InputDigest {
		return nil, nil, keyUsed(op, ok)
	}
	post, err := decodePost(op, postRaw)
	if post == nil && err == nil {
		err = noPost(op)
	}
	return &have.Comment, post, err
}

// EditComment changes the text of one of the user's own comments, by one
// conditional patch. NotFound without such a comment, Forbidden if it is somebody
// else's.
func (s *Store) EditComment(ctx context.Context, userID, postID, id, content string) (*Comment, error) {
	const op = "edit comment"
	ctx = s.account.Begin(ctx, EditComment)
	if err := ValidateComment(content); err != nil {
		return nil, err
	}
	if !validID(postID) || !validID(id) {
		return nil, noComment(op)
	}
	var p cosmos.Patch
	p.Condition = by(userID).live(typeComment)
	p.ReturnItem = true
	p.Set("/content", content)
	date := s.now()
	p.Set("/editDate", date)
	r, err := s.posts.Patch(ctx, key(postID, id), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, s.whyNotChanged(ctx, op, by(userID), postID, id)
	}
	if ambiguous(ctx, err) {
		if c, readErr := s.readComment(ctx, postID, id); readErr == nil && c != nil && c.UpdatedAt != nil && *c.UpdatedAt == date && c.Content == content {
			return c, nil
		}
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	return decodeComment(op, r.Value)
}

// DeleteComment deletes one of the user's own comments: one transactional batch
// makes it a tombstone, without its text, and counts it off. It returns the post
// as it is afterwards. NotFound without such a comment, Forbidden if it is
// somebody else's.
func (s *Store) DeleteComment(ctx context.Context, userID, postID, id string) (*Post, error) {
	return s.deleteComment(ctx, "delete comment", by(userID), postID, id)
}

// RemoveComment is DeleteComment by a moderator, whoever wrote the comment.
func (s *Store) RemoveComment(ctx context.Context, postID, id string) (*Post, error) {
	return s.deleteComment(ctx, "remove comment", byAnybody, postID, id)
}

func (s *Store) deleteComment(ctx context.Context, op string, who authorship, postID, id string) (*Post, error) {
	ctx = s.account.Begin(ctx, DeleteComment)
	if !validID(postID) || !validID(id) {
		return nil, noComment(op)
	}
	var p cosmos.Patch
	p.Condition = who.live(typeComment)
	p.Set("/deleted", true)
	p.Set("/ttl", tombstoneLife)
	p.Set("/content", "")
	items, failed, status, err := batch(ctx, s.posts, postID, func(b *cosmos.Batch) {
		b.Patch(id, p)
		b.Patch(postID, count("/commentCount", -1))
	})
	if ambiguous(ctx, err) {
		postRaw, raw, readErr := s.readPair(ctx, op, postID, id)
		var c authored
		if readErr == nil && json.Unmarshal(raw, &c) == nil && c.Deleted && who.includes(c.UserID) {
			post, err := decodePost(op, postRaw)
			if post == nil && err == nil {
				err = noComment(op) // the post has been deleted since
			}
			return post, err
		}
	}
	gone := status == http.StatusNotFound || status == http.StatusPreconditionFailed
	switch {
	case err != nil:
		return nil, cosmosError(op, err)
	case failed == 0 && gone:
		return nil, s.whyNotChanged(ctx, op, who, postID, id)
	case failed == 1 && gone:
		return nil, noComment(op) // the post is deleted, and its comments with it
	case failed >= 0:
		return nil, &Error{Code: codeOfStatus(status), Op: op}
	}
	return decodePost(op, items[1])
}

// whyNotChanged finds the reason why a conditional change did not apply.
func (s *Store) whyNotChanged(ctx context.Context, op string, who authorship, postID, id string) error {
	c, err := s.readComment(ctx, postID, id)
	switch {
	case err != nil:
		return err
	case c != nil && !who.includes(c.AuthorID):
		return &Error{Code: Forbidden, Op: op, Message: "only the author can change this comment"}
	}
	return noComment(op)
}

func noComment(op string) error {
	return &Error{Code: NotFound, Op: op, Message: "comment not found"}
}
