package store

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// commentStore reads and writes comments.
type commentStore struct {
	*base
	authors *authors
	counted *countedWrites
	limit   *authorComments
}

// Comment is one point read. It returns nil if the comment does not exist.
func (s *commentStore) Comment(ctx context.Context, postID, id string) (*blog.Comment, error) {
	ctx = s.beginRead(ctx, OneComment)
	return cached(ctx, s.posts, postID, "comment "+id, func(ctx context.Context) (*blog.Comment, error) {
		return s.readComment(ctx, postID, id)
	})
}

// readComment is Comment without the item cache.
func (s *commentStore) readComment(ctx context.Context, postID, id string) (*blog.Comment, error) {
	const op = "read comment"
	if !blog.ValidID(postID) || !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := stored.Read(ctx, op, s.posts, stored.Key(postID, id))
	if raw == nil || err != nil {
		return nil, err
	}
	c, err := blog.DecodeComment(op, raw)
	if c != nil {
		s.showComment(c)
	}
	return c, err
}

// Comments is Q4: a post's comments, by one query of the post's partition. The page of an unknown post is
// empty.
func (s *commentStore) Comments(ctx context.Context, postID string, p Paging) (*Page[*blog.Comment], error) {
	ctx = s.beginRead(ctx, Comments)
	switch p.Order {
	case "":
		p.Order = NewestFirst
	case NewestFirst, OldestFirst:
	default:
		return nil, blog.Invalidf("list comments", "order", blog.ReasonType, "must be %s or %s", NewestFirst, OldestFirst)
	}
	return s.commentList(postID).page(ctx, p)
}

func (s *commentStore) commentList(postID string) *list[blog.Comment] {
	return &list[blog.Comment]{op: "list comments", container: s.posts, key: "postId", partition: postID,
		typ:    blog.TypeComment,
		format: blog.Comments, defaults: blog.Comment{PostID: postID}, deletions: s.deletions, show: s.showComment,
		position: func(c *blog.Comment) (blog.Date, string) { return c.CreatedAt, c.ID }}
}

// CommentCursor returns the cursor that a comment has in Comments of its post, newest first.
func (s *commentStore) CommentCursor(c *blog.Comment) string {
	return s.commentList(c.PostID).cursor(c, NewestFirst)
}

// NewComment is a comment to create.
type NewComment struct {
	AuthorID string // the acting user
	PostID   string
	Content  string
	Key      string // the idempotency key, or ""
}

// Validate returns an Error for each invalid field, joined. It does not look at PostID.
func (n NewComment) Validate() error {
	const op = "create comment"
	return errors.Join(checkComment(op, normalizeLines(n.Content)), checkKey(op, n.Key))
}

// CreateComment is C3: one transactional batch that counts the comment and creates it. It returns the comment and the
// updated post. NotFound if the post does not exist, Forbidden if the author has no user yet, Conflict if the
// idempotency key was used for another comment on the post, LimitReached if the post or the author on it has the
// maximum number of comments.
func (s *commentStore) CreateComment(ctx context.Context, n NewComment) (*blog.Comment, *blog.Post, error) {
	const op = "create comment"
	ctx = s.account.Begin(ctx, CreateComment)
	if err := n.Validate(); err != nil {
		return nil, nil, err
	}
	n.Content = normalizeLines(n.Content)
	if !blog.ValidID(n.PostID) {
		return nil, nil, blog.NoPost(op)
	}
	author, err := s.authors.byline(ctx, op, n.AuthorID)
	if err != nil {
		return nil, nil, err
	}
	item := blog.CommentItem{Envelope: blog.Envelope{Type: blog.TypeComment},
		InputDigest: inputDigest(n.Key, n.Content),
		Comment: blog.Comment{ID: createID(n.Key, blog.TypeComment, author.UserID, n.PostID), PostID: n.PostID,
			Byline: author, Content: n.Content, CreatedAt: s.now()}}
	who := authorOnPost{author.UserID, n.PostID}
	if err := s.checkAuthorComments(ctx, op, who); err != nil {
		if n.Key != "" && blog.CodeOf(err) == blog.LimitReached {
			if comment, post, readErr := s.firstComment(ctx, op, item); readErr == nil {
				return comment, post, nil
			}
		}
		return nil, nil, err
	}
	post, exists, err := s.counted.create(ctx, op, n.PostID, item.ID, "/commentCount", blog.Encode(item))
	if exists {
		return s.firstComment(ctx, op, item)
	}
	if stored.Ambiguous(ctx, err) {
		if comment, post, readErr := s.firstComment(ctx, op, item); readErr == nil {
			return comment, post, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	s.limit.written(who, post)
	return &item.Comment, post, nil
}

// firstComment returns the comment of an earlier attempt with the same idempotency key.
func (s *commentStore) firstComment(
	ctx context.Context, op string, item blog.CommentItem,
) (*blog.Comment, *blog.Post, error) {
	postRaw, raw, err := s.counted.readPair(ctx, op, item.PostID, item.ID)
	if err != nil {
		return nil, nil, err
	}
	have, ok, err := blog.Decode[blog.CommentItem](op, blog.TypeComment, raw)
	if err != nil {
		return nil, nil, err
	}
	if !ok || have.InputDigest != item.InputDigest {
		return nil, nil, keyUsed(op, ok)
	}
	post, err := s.counted.writtenPost(ctx, op, postRaw)
	if post == nil && err == nil {
		err = blog.NoPost(op)
	}
	return &have.Comment, post, err
}

// EditComment changes the text of a comment, by a read and one conditional patch. The same text changes nothing.
// NotFound if it does not exist, Forbidden if it has another author.
func (s *commentStore) EditComment(ctx context.Context, userID, postID, id, content string) (*blog.Comment, error) {
	const op = "edit comment"
	ctx = s.account.Begin(ctx, EditComment)
	if err := ValidateComment(content); err != nil {
		return nil, err
	}
	content = normalizeLines(content)
	if !blog.ValidID(postID) || !blog.ValidID(id) {
		return nil, noComment(op)
	}
	if err := s.authors.check(ctx, op, userID); err != nil {
		return nil, err
	}
	if same, err := s.unchangedComment(ctx, op, userID, postID, id, content); same != nil || err != nil {
		return same, err
	}
	var p cosmos.Patch
	p.Condition = liveAndBy(blog.TypeComment, userID)
	p.ReturnItem = true
	p.Set("/content", content)
	date := s.now()
	p.Set("/editDate", date)
	r, err := s.posts.Patch(ctx, stored.Key(postID, id), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, s.changeError(ctx, op, userID, postID, id)
	}
	if stored.Ambiguous(ctx, err) {
		if c, readErr := s.readComment(ctx, postID, id); readErr == nil && c != nil && c.UpdatedAt != nil &&
			*c.UpdatedAt == date && c.Content == content {
			return c, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return blog.DecodeComment(op, r.Value)
}

// unchangedComment returns the comment if it has the text, also once the primary replica was read, and nil otherwise.
func (s *commentStore) unchangedComment(
	ctx context.Context, op, userID, postID, id, content string,
) (*blog.Comment, error) {
	read := func() (*blog.Comment, error) {
		c, err := s.readComment(ctx, postID, id)
		if c == nil || err != nil || c.UserID != userID || c.Content != content {
			return nil, err
		}
		return c, nil
	}
	c, err := read()
	if c == nil || err != nil {
		return nil, err
	}
	if _, err := s.posts.ReadPrimary(ctx, stored.Key(postID, id)); err != nil {
		return nil, stored.Error(op, err)
	}
	return read()
}

// DeleteComment deletes a comment: one transactional batch replaces it by a tombstone, at the ETag of a read, and
// decrements the count. It returns the updated post. NotFound if the comment does not
// exist, Forbidden if it has another author.
func (s *commentStore) DeleteComment(ctx context.Context, userID, postID, id string) (*blog.Post, error) {
	return s.deleteComment(ctx, "delete comment", byAuthor(userID), postID, id)
}

// RemoveComment is DeleteComment for moderators: it deletes the comments of all authors.
func (s *commentStore) RemoveComment(ctx context.Context, postID, id string) (*blog.Post, error) {
	return s.deleteComment(ctx, "remove comment", byModerator, postID, id)
}

func (s *commentStore) deleteComment(
	ctx context.Context, op string, who authorship, postID, id string,
) (*blog.Post, error) {
	ctx = s.account.Begin(ctx, DeleteComment)
	if !blog.ValidID(postID) || !blog.ValidID(id) {
		return nil, noComment(op)
	}
	if err := s.authors.check(ctx, op, who.userID); err != nil {
		return nil, err
	}
	for range maxDeleteTries {
		if post, err := s.tryDeleteComment(ctx, op, who, postID, id); post != nil || err != nil {
			return post, err
		}
	}
	return nil, changedMeanwhile(op)
}

// tryDeleteComment replaces a comment by its tombstone, and returns the updated post. It returns nil if the comment
// was changed meanwhile.
func (s *commentStore) tryDeleteComment(
	ctx context.Context, op string, who authorship, postID, id string,
) (*blog.Post, error) {
	have, err := s.posts.Read(ctx, stored.Key(postID, id))
	if err != nil {
		return nil, stored.Error(op, err)
	}
	if have.Value == nil {
		return nil, noComment(op)
	}
	c, err := blog.DecodeComment(op, have.Value)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, noComment(op)
	case !who.includes(c.UserID):
		return nil, notAuthorOfComment(op)
	}
	r, err := batch(ctx, s.posts, postID, func(b *cosmos.Batch) {
		b.ReplaceIf(id, blog.Encode(blog.NewCommentTombstone(c)), have.ETag)
		b.Patch(postID, patchCounter("/commentCount", -1))
	})
	if stored.Ambiguous(ctx, err) {
		postRaw, raw, readErr := s.counted.readPair(ctx, op, postID, id)
		var c blog.Authored
		if readErr == nil && json.Unmarshal(raw, &c) == nil && c.Deleted && who.includes(c.UserID) {
			post, err := s.counted.writtenPost(ctx, op, postRaw)
			if post == nil && err == nil {
				err = noComment(op) // the post has been deleted since
			}
			return post, err
		}
	}
	gone := r.Status == http.StatusNotFound || r.Status == http.StatusPreconditionFailed
	switch {
	case err != nil:
		return nil, stored.Error(op, err)
	case r.Failed == 0 && gone:
		return nil, nil
	case r.Failed == 1 && gone:
		return nil, noComment(op) // the post is deleted
	case r.Failed >= 0:
		return nil, stored.Error(op, r.Err())
	}
	return s.counted.writtenPost(ctx, op, r.Items[1])
}

// changeError returns the error of a conditional change whose condition failed.
func (s *commentStore) changeError(ctx context.Context, op, userID, postID, id string) error {
	c, err := s.readComment(ctx, postID, id)
	switch {
	case err != nil:
		return err
	case c != nil && c.UserID != userID:
		return notAuthorOfComment(op)
	}
	return noComment(op)
}

func notAuthorOfComment(op string) error {
	return &blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNotYours,
		Message: "only the author can change this comment"}
}

func noComment(op string) error {
	return &blog.Error{Code: blog.NotFound, Op: op, Message: "comment not found"}
}

// The comments of an author on a post are limited to maxPerAuthor, including those deleted in the last 30
// days, whose tombstones also fill the partition. Cosmos DB cannot check that in a batch, and a query for
// each comment would make every comment more expensive. So an instance counts by a query, and then allows
// up to recountAfter comments before it counts again. It first counts at an author's second comment on a
// post with at least maxPerAuthor writes, known from the response to the first comment. So an author can
// exceed the limit by recountAfter comments for each instance, and by those in flight.
const (
	maxPerAuthor = 1000
	recountAfter = 50
	fullFor      = time.Minute // a refused author is not counted again; tombstones expire only after days
)

// authorComments holds how many comments authors may write on posts before the next count. It evicts the
// least recently used entries, each of which allows one more comment. It is safe for concurrent use.
type authorComments struct {
	mu      sync.Mutex
	allowed *simplelru.LRU[authorOnPost, allowance] // guarded by mu; without an entry there is no count
}

// allowance is how many comments an author may write before the next count.
type allowance struct {
	n    int
	full time.Time // until then the author is known to be at the limit
}

type authorOnPost struct{ author, post string }

func newAuthorComments() *authorComments {
	allowed, _ := simplelru.NewLRU[authorOnPost, allowance](1<<14, nil) // fails only for sizes below 1
	return &authorComments{allowed: allowed}
}

// take uses one allowed comment. It returns false if none is left: until full the limit is known to be
// reached, after it the caller must count.
func (a *authorComments) take(k authorOnPost) (ok bool, full time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, known := a.allowed.Get(k)
	if known && have.n > 0 {
		a.allowed.Add(k, allowance{n: have.n - 1})
	}
	return !known || have.n > 0, have.full
}

// allow sets the allowance until the next count.
func (a *authorComments) allow(k authorOnPost, what allowance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed.Add(k, what)
}

// written records a comment. If the author has no entry and the post has at least maxPerAuthor writes,
// which bound the comments of an author, it has their next comment counted.
func (a *authorComments) written(k authorOnPost, p *blog.Post) {
	if max(p.Revision, int64(p.CommentCount)) < maxPerAuthor {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.allowed.Contains(k) {
		a.allowed.Add(k, allowance{})
	}
}

// checkAuthorComments returns LimitReached if the author has written maxPerAuthor comments on
// the post.
func (s *commentStore) checkAuthorComments(ctx context.Context, op string, k authorOnPost) error {
	limited := &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonLimit,
		Message: "you have written as many comments on this post as you can"}
	switch ok, full := s.limit.take(k); {
	case ok:
		return nil
	case s.o.Clock().Before(full):
		return limited
	}
	query := cosmos.Query{Partition: k.post,
		Text: "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type IN ('comment', 'deletedComment') AND " +
			"c.userId = @author",
	}.With("@post", k.post).With("@author", k.author)
	n, err := countItems(ctx, op, s.posts, query)
	if err != nil {
		return err
	}
	if n >= maxPerAuthor {
		s.limit.allow(k, allowance{full: s.o.Clock().Add(fullFor)})
		return limited
	}
	s.limit.allow(k, allowance{n: min(recountAfter, maxPerAuthor-n) - 1}) // this is one of them
	return nil
}
