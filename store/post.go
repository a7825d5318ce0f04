package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"byline/store/cosmos"
)

// Post is a post, whole or in its short form.
type Post struct {
	ID             string `json:"id"`
	AuthorID       string `json:"userId"`
	AuthorUsername string `json:"userUsername"`
	Title          string `json:"title"`
	Content        string `json:"content"` // if Truncated, the excerpt alone
	CommentCount   int32  `json:"commentCount"`
	LikeCount      int32  `json:"likeCount"`
	CreatedAt      Date   `json:"creationDate"`
	UpdatedAt      *Date  `json:"editDate,omitempty"` // nil: never edited
	Version        int32  `json:"version"`            // raised by edits of title and content
	Revision       int64  `json:"revision"`           // raised by every write; orders copies

	Truncated bool `json:"-"` // a short form that is shorter than the post

	deleted bool // a tombstone; only the projections see any
}

// postItem is a post in the posts container.
type postItem struct {
	envelope
	PostID string `json:"postId"` // == id
	Post
	InputDigest string `json:"inputDigest,omitempty"`
}

func (i *postItem) plain(p *plain, name string) bool {
	switch name {
	case "id":
		i.ID = p.quoted()
	case "postId":
		i.PostID = p.quoted()
	case "userId":
		i.AuthorID = p.quoted()
	case "userUsername":
		i.AuthorUsername = p.quoted()
	case "title":
		i.Title = p.quoted()
	case "content":
		i.Content = p.quoted()
	case "commentCount":
		i.CommentCount = int32(p.integer(32))
	case "likeCount":
		i.LikeCount = int32(p.integer(32))
	case "creationDate":
		i.CreatedAt = p.day()
	case "editDate":
		d := p.day()
		i.UpdatedAt = &d
	case "version":
		i.Version = int32(p.integer(32))
	case "revision":
		i.Revision = p.integer(64)
	case "inputDigest":
		i.InputDigest = p.quoted()
	default:
		return i.plainEnvelope(p, name)
	}
	return true
}

// shortItem is the short form of a post in the users and feed containers.
type shortItem struct {
	postItem
	Truncated bool `json:"truncated"`
}

func (i *shortItem) plain(p *plain, name string) bool {
	if name == "truncated" {
		i.Truncated = p.truth()
		return true
	}
	return i.postItem.plain(p, name)
}

const excerptLength = 280 // characters

// Excerpt returns the beginning of the content: at most 280 characters, cut
// between words where there are any.
func (p *Post) Excerpt() string {
	excerpt, _ := excerpt(p.Content)
	return excerpt
}

func excerpt(content string) (text string, truncated bool) {
	if len(content) <= excerptLength || utf8.RuneCountInString(content) <= excerptLength {
		return content, false
	}
	end, n := len(content), 0
	for i := range content {
		if n == excerptLength {
			end = i
			break
		}
		n++
	}
	cut := content[:end]
	if next := content[end]; next != ' ' && next != '\n' && next != '\t' {
		if space := strings.LastIndexAny(cut, " \n\t"); space > 0 {
			cut = cut[:space]
		}
	}
	return strings.TrimRight(cut, " \n\t"), true
}

// short returns the item that copies hold of the post.
func (p *Post) short() shortItem {
	item := shortItem{postItem: postItem{envelope: envelope{Type: typePost}, PostID: p.ID, Post: *p}}
	item.Content, item.Truncated = excerpt(p.Content)
	if p.deleted {
		item.Deleted, item.TTL = true, tombstoneLife
	}
	return item
}

// summaryIn returns the summary of a post as a partition of a container holds it.
func summaryIn(p *Post, c *cosmos.Container, partition string) shortItem {
	item := p.short()
	item.Type = typeOfCopies(c, partition)
	return item
}

// typeOfCopies is the type of the copies in a partition. In the feed, that is the
// partition key.
func typeOfCopies(c *cosmos.Container, partition string) string {
	if c.Name() == feedContainer {
		return partition
	}
	return typePost
}

func decodePost(op string, raw []byte) (*Post, error) {
	item, ok, err := decode[postItem](op, typePost, raw)
	if !ok {
		return nil, err
	}
	return &item.Post, nil
}

// decodeChangedPost is decodePost for those who must know of tombstones.
func decodeChangedPost(op string, raw []byte) (*Post, error) {
	item, _, err := decode[postItem](op, typePost, raw)
	item.Post.deleted = item.Deleted
	return &item.Post, err
}

// shortFields are what a list needs of a short form.
const shortFields = "c.id, c.userId, c.userUsername, c.title, c.content, c.truncated, c.commentCount, c.likeCount, c.creationDate, c.editDate, c.version, c.revision"

func plainShort(r *plain, p *Post) {
	p.ID, p.AuthorID, p.AuthorUsername = r.text("id"), r.text("userId"), r.text("userUsername")
	p.Title, p.Content, p.Truncated = r.text("title"), r.text("content"), r.flag("truncated")
	p.CommentCount, p.LikeCount = int32(r.number("commentCount", 32)), int32(r.number("likeCount", 32))
	p.CreatedAt, p.UpdatedAt = r.date("creationDate"), r.dateOrNil("editDate")
	p.Version, p.Revision = int32(r.number("version", 32)), r.number("revision", 64)
}

// intoShort is what a short form is decoded into.
func intoShort(p *Post) any {
	return &struct {
		*Post
		Truncated *bool `json:"truncated"`
	}{p, &p.Truncated}
}

func placeOfPost(p *Post) (Date, string) { return p.CreatedAt, p.ID }

// wholePost is what a post is called in memory.
const wholePost = "post"

// Post reads a whole post: Q2, one point read. It returns nil if there is none.
func (s *Store) Post(ctx context.Context, id string) (*Post, error) {
	ctx = s.account.Begin(ctx, Q2)
	return cached(ctx, s.posts, id, wholePost, func(ctx context.Context) (*Post, error) { return s.readPost(ctx, id) })
}

// readPost is Post, never from memory.
func (s *Store) readPost(ctx context.Context, id string) (*Post, error) {
	const op = "read post"
	if !validID(id) {
		return nil, nil
	}
	raw, err := readItem(ctx, op, s.posts, key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return decodePost(op, raw)
}

// Posts reads many whole posts in one request: result[i] is nil if ids[i] does
// not exist.
func (s *Store) Posts(ctx context.Context, ids []string) ([]*Post, error) {
	ctx = s.account.Begin(ctx, ManyPosts)
	return cachedMany(ctx, s.posts, ids, func(string) string { return wholePost }, func(ctx context.Context, ids []string) ([]*Post, error) {
		return readPosts(ctx, s.posts, ids, decodePost)
	})
}

func readPosts(ctx context.Context, c *cosmos.Container, ids []string, decode func(string, []byte) (*Post, error)) ([]*Post, error) {
	return readAll(ctx, "read posts", c, ids,
		func(id string) cosmos.Key {
			return key(id, id)
		},
		decode, func(p *Post) string { return p.ID })
}

// UserPosts is Q3: a user's posts in short form, newest first, by one query of the
// user's partition. A user that does not exist has none.
func (s *Store) UserPosts(ctx context.Context, userID string, p Paging) (*Page[*Post], error) {
	ctx = s.account.Begin(ctx, Q3)
	l := list[Post]{op: "list posts of user", container: s.users, partition: userID, typ: typePost,
		format: summaries, place: placeOfPost}
	p.Order = NewestFirst
	return l.page(ctx, p)
}

// NewPost is a post to create.
type NewPost struct {
	AuthorID string // the acting user
	Title    string
	Content  string
	Key      string // the idempotency key, or ""
}

// Validate returns all that is wrong with the input, as Errors that are joined: one for
// each field.
func (n NewPost) Validate() error {
	const op = "create post"
	return errors.Join(checkTitle(op, n.Title), checkContent(op, n.Content), checkKey(op, n.Key))
}

// CreatePost is C2: one create, after a point read for the author's name. It then
// writes the copies itself, so that the author sees the post at once; should that
// fail, the change feed catches up. Forbidden if the author has no user yet,
// Conflict if the idempotency key was used for another post, or for one that was deleted.
func (s *Store) CreatePost(ctx context.Context, n NewPost) (*Post, error) {
	const op = "create post"
	ctx = s.account.Begin(ctx, C2)
	if err := n.Validate(); err != nil {
		return nil, err
	}
	author, err := s.author(ctx, op, n.AuthorID)
	if err != nil {
		return nil, err
	}
	id := createID(n.Key, typePost, author.ID)
	item := postItem{envelope: envelope{Type: typePost}, PostID: id, InputDigest: inputDigest(n.Key, n.Title, n.Content),
		Post: Post{ID: id, AuthorID: author.ID, AuthorUsername: author.Username, Title: n.Title, Content: n.Content,
			CreatedAt: s.now(), Version: 1, Revision: 1}}
	err = s.posts.Create(ctx, id, encode(item))
	if cosmos.HasStatus(err, http.StatusConflict) {
		first, err := s.firstPost(ctx, op, item)
		if first != nil && first.CreatedAt > NewDate(s.o.Clock().Add(-underWay)) {
			s.showNow(ctx, first) // who made it may not have come so far; what is old may not belong into the feed
		}
		return first, err
	}
	if ambiguous(ctx, err) {
		if _, readErr := s.firstPost(ctx, op, item); readErr == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	s.showNow(ctx, &item.Post)
	return &item.Post, nil
}

// firstPost returns the post that an earlier attempt at creating item made.
func (s *Store) firstPost(ctx context.Context, op string, item postItem) (*Post, error) {
	raw, err := readItem(ctx, op, s.posts, key(item.ID, item.ID))
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, &Error{Code: Conflict, Op: op, Message: "the post is being created by another request; try again"}
	}
	have, ok, err := decode[postItem](op, typePost, raw)
	if err != nil {
		return nil, err
	}
	if !ok || have.InputDigest != item.InputDigest {
		return nil, keyUsed(op, ok)
	}
	return &have.Post, nil
}

// keyUsed is the error where a key made another item than it should again, or, if that is not
// there any more, one that was deleted.
func keyUsed(op string, there bool) error {
	e := &Error{Code: Conflict, Op: op, Field: "idempotencyKey", Message: "this idempotencyKey was already used with a different input"}
	if !there {
		e.Message = "the item that was created with this idempotencyKey has been deleted"
	}
	return e
}

// PostEdit says how to change a post. Nil leaves things as they are.
type PostEdit struct {
	Title, Content *string
	Version        *int32 // if given, the edit holds only for this version
}

// Validate returns all that is wrong with the input, as Errors that are joined: one for
// each field.
func (e PostEdit) Validate() error {
	const op = "edit post"
	if e.Title == nil && e.Content == nil {
		return invalid(op, "title", "title or content is required")
	}
	var title, content error
	if e.Title != nil {
		title = checkTitle(op, *e.Title)
	}
	if e.Content != nil {
		content = checkContent(op, *e.Content)
	}
	return errors.Join(title, content)
}

// EditPost is C2's edit: one conditional patch, so that it meets no conflict with
// likes and comments. NotFound without such a post, Forbidden if it is somebody
// else's, Conflict if Version is stale. The copies are written as in CreatePost.
func (s *Store) EditPost(ctx context.Context, userID, postID string, e PostEdit) (*Post, error) {
	const op = "edit post"
	ctx = s.account.Begin(ctx, C2)
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if !validID(postID) {
		return nil, noPost(op)
	}
	condition := by(userID).live(typePost)
	if e.Version != nil {
		condition += fmt.Sprintf(" AND c.version = %d", *e.Version)
	}
	var p cosmos.Patch
	p.Condition, p.ReturnItem = condition, true
	if e.Title != nil {
		p.Set("/title", *e.Title)
	}
	if e.Content != nil {
		p.Set("/content", *e.Content)
	}
	date := s.now()
	p.Set("/editDate", date)
	p.Increment("/version", 1)
	p.Increment("/revision", 1)
	r, err := s.posts.Patch(ctx, key(postID, postID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, s.whyNotEdited(ctx, op, by(userID), postID)
	}
	if ambiguous(ctx, err) {
		if post, readErr := s.readPost(ctx, postID); readErr == nil && post.isEdited(date, e) {
			s.showNow(ctx, post)
			return post, nil
		}
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	post, err := decodePost(op, r.Value)
	if post != nil {
		s.showNow(ctx, post)
	}
	return post, err
}

// isEdited reports whether the post is as an edit of that date leaves it. A nil post
// is not.
func (p *Post) isEdited(date Date, e PostEdit) bool {
	return p != nil && p.UpdatedAt != nil && *p.UpdatedAt == date && (e.Title == nil || *e.Title == p.Title) && (e.Content == nil || *e.Content == p.Content)
}

// whyNotEdited finds the reason why a conditional edit did not apply.
func (s *Store) whyNotEdited(ctx context.Context, op string, who authorship, postID string) error {
	post, err := s.readPost(ctx, postID)
	switch {
	case err != nil:
		return err
	case post == nil:
		return noPost(op)
	case !who.includes(post.AuthorID):
		return &Error{Code: Forbidden, Op: op, Message: "only the author can change this post"}
	}
	return &Error{Code: Conflict, Op: op, Field: "version", Message: fmt.Sprintf("version is outdated: the post now has version %d", post.Version)}
}

// DeletePost deletes a post: a conditional patch makes it a tombstone, without its
// text. Its copies, comments and likes go at once as far as that takes no longer
// than a request should, and through the change feed otherwise. NotFound without
// such a post, Forbidden if it is somebody else's.
func (s *Store) DeletePost(ctx context.Context, userID, postID string) error {
	return s.deletePost(ctx, "delete post", by(userID), postID)
}

// RemovePost is DeletePost by a moderator, whoever wrote the post.
func (s *Store) RemovePost(ctx context.Context, postID string) error {
	return s.deletePost(ctx, "remove post", byAnybody, postID)
}

func (s *Store) deletePost(ctx context.Context, op string, who authorship, postID string) error {
	ctx = s.account.Begin(ctx, DeletePost)
	if !validID(postID) {
		return noPost(op)
	}
	var p cosmos.Patch
	p.Condition, p.ReturnItem = who.live(typePost), true
	p.Set("/deleted", true)
	p.Set("/ttl", tombstoneLife)
	p.Set("/title", "")
	p.Set("/content", "")
	p.Increment("/revision", 1)
	r, err := s.posts.Patch(ctx, key(postID, postID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return s.whyNotEdited(ctx, op, who, postID)
	}
	if ambiguous(ctx, err) {
		raw, readErr := readItem(ctx, op, s.posts, key(postID, postID))
		if p, decodeErr := decodeChangedPost(op, raw); readErr == nil && raw != nil && decodeErr == nil && p.deleted && who.includes(p.AuthorID) {
			s.showNow(ctx, p)
			return nil
		}
	}
	if err != nil {
		return cosmosError(op, err)
	}
	tombstone, err := decodeChangedPost(op, r.Value)
	if err != nil {
		return err
	}
	s.showNow(ctx, tombstone)
	return nil
}

// authorship says whose items a change may reach: those of one author, or everybody's.
type authorship struct {
	userID  string
	anybody bool
}

func by(userID string) authorship { return authorship{userID: userID} }

var byAnybody = authorship{anybody: true}

func (a authorship) includes(authorID string) bool { return a.anybody || a.userID == authorID }

// live is the condition of a patch of such an item that is not deleted.
func (a authorship) live(typ string) string {
	condition := fmt.Sprintf("from c where c.type = '%s' AND NOT IS_DEFINED(c.deleted)", typ)
	if !a.anybody {
		condition += fmt.Sprintf(" AND c.userId = '%s'", a.userID)
	}
	return condition
}

func noPost(op string) error {
	return &Error{Code: NotFound, Op: op, Message: "post not found"}
}
