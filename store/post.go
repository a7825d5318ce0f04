package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

func positionOfPost(p *blog.Post) (blog.Date, string) { return p.CreatedAt, p.ID }

// cachedPost is the name of a post in the item cache.
const cachedPost = "post"

// Post is Q2: one point read, or two for a long post, whose text is an item of its own. The two reads are concurrent if
// the id tells that the post is long. The id does not tell it if the post was a draft, or became long by an edit.
// Post returns nil if the post does not exist. The post is Truncated if its text is lost.
func (s *Store) Post(ctx context.Context, id string) (*blog.Post, error) {
	ctx = s.beginRead(ctx, Q2)
	return cached(ctx, s.posts, id, cachedPost, func(ctx context.Context) (*blog.Post, error) {
		return s.readWhole(ctx, id)
	})
}

// readPost is Post without the item cache and without the text of a long post, which is
// Truncated.
func (s *Store) readPost(ctx context.Context, id string) (*blog.Post, error) {
	const op = "read post"
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := stored.Read(ctx, op, s.posts, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	p, err := blog.DecodePost(op, raw)
	return s.visible(p), err
}

// Posts reads posts in one request, or in two if some have become long by edits. result[i] is
// nil if ids[i] does not exist.
func (s *Store) Posts(ctx context.Context, ids []string) ([]*blog.Post, error) {
	ctx = s.beginRead(ctx, ManyPosts)
	return cachedMany(ctx, s.posts, ids, cachedPost, s.readWholes)
}

// UserPosts is Q3: the summaries of a user's posts, newest first, by one query of the user's
// partition. The page of an unknown user is empty.
func (s *Store) UserPosts(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	ctx = s.beginRead(ctx, Q3)
	p.Order = NewestFirst
	page, err := s.userPostList(userID).page(ctx, p)
	return s.withCounts(ctx, page, err)
}

func (s *Store) userPostList(userID string) *list[blog.Post] {
	return &list[blog.Post]{op: "list posts of user", container: s.users, key: "userId", partition: userID,
		typ:    blog.TypePost,
		format: blog.Summaries, position: positionOfPost, deletions: s.deletions, show: s.showPost,
		since: s.deletions.HiddenUntil(userID)}
}

// PostCount counts the posts of a user by one query of the user's partition, which the index alone
// answers. It is 0 for an unknown user.
func (s *Store) PostCount(ctx context.Context, userID string) (int32, error) {
	const op = "count posts of user"
	ctx = s.beginRead(ctx, PostCount)
	q := cosmos.Query{Partition: userID,
		Text: "SELECT VALUE COUNT(1) FROM c WHERE c.userId = @user AND c.type = @type"}.
		With("@user", userID).With("@type", blog.TypePost)
	if until := s.deletions.HiddenUntil(userID); until != "" {
		q.Text += " AND c.creationDate >= @since"
		q = q.With("@since", until)
	}
	return cached(ctx, s.users, userID, "post count", func(ctx context.Context) (int32, error) {
		n, err := countItems(ctx, op, s.users, q)
		return int32(n), err
	})
}

// PostCursor returns the cursor that a post has in UserPosts of its author, or a draft in UserDrafts.
func (s *Store) PostCursor(p *blog.Post) string {
	if p.IsDraft {
		return s.draftList(p.UserID).cursor(p, NewestFirst)
	}
	return s.userPostList(p.UserID).cursor(p, NewestFirst)
}

// NewPost is a post to create.
type NewPost struct {
	AuthorID string // the acting user
	Title    string
	Content  string
	Tags     []string // each kept once, in the first spelling
	Key      string   // the idempotency key, or ""
}

// Validate returns an Error for each invalid field, joined.
func (n NewPost) Validate() error {
	const op = "create post"
	n = n.normalized()
	return errors.Join(checkTitle(op, n.Title), checkContent(op, n.Content), checkTags(op, n.Tags), checkKey(op, n.Key))
}

// normalized returns the post with normalized texts.
func (n NewPost) normalized() NewPost {
	n.Title, n.Content = normalizeLine(n.Title), normalizeLines(n.Content)
	return n
}

// CreatePost is C2: one create, or of a long post one transactional batch. It then writes the summaries, so that the
// author sees the post at once; if that fails, the projections do it. Forbidden if the author has no user yet, Conflict
// if the idempotency key was used for another post, or for one that was deleted.
func (s *Store) CreatePost(ctx context.Context, n NewPost) (*blog.Post, error) {
	const op = "create post"
	ctx = s.account.Begin(ctx, C2)
	if err := n.Validate(); err != nil {
		return nil, err
	}
	n = n.normalized()
	for try := range maxIDTries {
		post, err := s.tryCreatePost(ctx, op, n, try)
		if err != errIDTaken {
			return post, err
		}
	}
	return nil, changedMeanwhile(op)
}

// maxIDTries is how many ids a new post can have, of which the first is free but for an improbable collision.
const maxIDTries = 3

// errIDTaken is the error of a creation with the id of another post.
var errIDTaken = errors.New("the id is of another post")

func (s *Store) tryCreatePost(ctx context.Context, op string, n NewPost, try int) (*blog.Post, error) {
	scope := []string{blog.TypePost, n.AuthorID}
	if try > 0 {
		scope = append(scope, strconv.Itoa(try))
	}
	id := newPostID(n.Key, scope...)
	if blog.IsLong(n.Content) {
		id = blog.LongID(id)
	}
	author, other, err := s.authorAndOther(ctx, op, n, id)
	if err != nil {
		return nil, err
	}
	post := &blog.Post{ID: id, Byline: author, Title: n.Title, Content: n.Content,
		Tags: distinct(n.Tags), CreatedAt: s.now(), Version: 1, Revision: 1}
	item, text := blog.NewPostItem(post)
	item.InputDigest = inputDigest(n.Key, append([]string{n.Title, n.Content}, post.Tags...)...)
	if other != nil {
		return s.postOfKey(ctx, op, item, other, nil)
	}
	if err = s.createPost(ctx, item, text); cosmos.HasStatus(err, http.StatusConflict) {
		return s.firstPost(ctx, op, item)
	}
	if stored.Ambiguous(ctx, err) {
		if first, readErr := s.firstPost(ctx, op, item); readErr == nil {
			return first, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	s.views.UpdateViews(ctx, post)
	return post, nil
}

// authorAndOther returns the author of a new post. If it has an idempotency key, authorAndOther concurrently
// reads the post that an earlier request with the key may have created with a text of the other kind, long
// or short, and hence with another id. Two such requests at the same time both succeed.
func (s *Store) authorAndOther(
	ctx context.Context, op string, n NewPost, id string,
) (author blog.Byline, other []byte, err error) {
	var g errgroup.Group
	if n.Key != "" {
		g.Go(func() (err error) {
			otherID := blog.OtherID(id)
			other, err = stored.Read(ctx, op, s.posts, stored.Key(otherID, otherID))
			return err
		})
	}
	author, err = s.author(ctx, op, n.AuthorID)
	if otherErr := g.Wait(); err == nil {
		err = otherErr
	}
	return author, other, err
}

// createPost creates a post with its text, which may be nil. Its error has status 409 if the
// post exists.
func (s *Store) createPost(ctx context.Context, item blog.PostItem, text *blog.TextItem) error {
	if text == nil {
		return s.posts.Create(ctx, item.ID, blog.Encode(item))
	}
	r, err := batch(ctx, s.posts, item.ID, func(b *cosmos.Batch) {
		b.NoItems = true
		b.Create(blog.Encode(item))
		b.Upsert(blog.Encode(text))
	})
	if err == nil {
		err = r.Err()
	}
	return err
}

// firstPost returns the post of an earlier attempt with the same idempotency key. If the post is younger
// than blog.MaxWriteTime, it writes the summaries, as that attempt may have been interrupted before; those of an
// older post would put it back into the feed.
func (s *Store) firstPost(ctx context.Context, op string, item blog.PostItem) (*blog.Post, error) {
	raw, text, err := s.readItems(ctx, op, item.ID)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
			Message: "the post is being created by another request; try again"}
	}
	first, err := s.postOfKey(ctx, op, item, raw, text)
	if err == nil {
		s.updateRecent(ctx, first)
	}
	return first, err
}

// updateRecent writes the summaries of a post that is younger than blog.MaxWriteTime.
func (s *Store) updateRecent(ctx context.Context, p *blog.Post) {
	if p.CreatedAt > blog.NewDate(s.o.Clock().Add(-blog.MaxWriteTime)) {
		s.views.UpdateViews(ctx, p)
	}
}

// postOfKey returns the post that was created with the idempotency key, given its item and, unless it is nil, its text.
// Conflict if it has a different input or has been deleted; errIDTaken if it is another post. Without a key, it is an
// attempt of the same request whose response was lost.
func (s *Store) postOfKey(ctx context.Context, op string, item blog.PostItem, raw, text []byte) (*blog.Post, error) {
	have, ok, err := blog.Decode[blog.PostItem](op, blog.TypePost, raw)
	if err != nil {
		return nil, err
	}
	if have.UserID != item.UserID || item.InputDigest == "" && have.CreatedAt != item.CreatedAt {
		return nil, errIDTaken
	}
	if !ok || have.InputDigest != item.InputDigest {
		return nil, keyUsed(op, ok)
	}
	p, err := s.withText(ctx, op, have, text)
	if p == nil && err == nil { // deleted since the item was read
		err = keyUsed(op, false)
	}
	return p, err
}

// keyUsed returns the Conflict of an idempotency key that was used for another item or, if exists is false,
// for a deleted one.
func keyUsed(op string, exists bool) error {
	e := &blog.Error{Code: blog.Conflict, Op: op, Field: "idempotencyKey", Reason: blog.ReasonKeyUsed,
		Message: "was already used with a different input"}
	if !exists {
		e.Message = "was already used for an item that has been deleted"
	}
	return e
}

// PostEdit is a change of a post. Nil fields stay as they are.
type PostEdit struct {
	Title, Content *string
	Tags           *[]string // all tags that the post has afterwards
	Version        *int32    // if not nil, the version that the edit requires
}

// Validate returns an Error for each invalid field, joined.
func (e PostEdit) Validate() error {
	const op = "edit post"
	e = e.normalized()
	var title, content, tags error
	if e.Title != nil {
		title = checkTitle(op, *e.Title)
	}
	if e.Content != nil {
		content = checkContent(op, *e.Content)
	}
	if e.Tags != nil {
		tags = checkTags(op, *e.Tags)
	}
	return errors.Join(title, content, tags)
}

// normalized returns the edit with normalized texts.
func (e PostEdit) normalized() PostEdit {
	e.Title, e.Content = normalizedText(e.Title, normalizeLine), normalizedText(e.Content, normalizeLines)
	return e
}

// EditPost is the edit of C2: a read, and one conditional patch, so that likes and comments do not conflict with it,
// in a transactional batch with the write of a long text. An edit without a change writes nothing. NotFound if the
// post does not exist, Forbidden if it has another author, Conflict if Version is stale. The summaries are written as
// by CreatePost. If the content of a long post is not edited, the result is Truncated. A draft, which no view has, is
// one patch more.
func (s *Store) EditPost(ctx context.Context, userID, postID string, e PostEdit) (*blog.Post, error) {
	const op = "edit post"
	ctx = s.account.Begin(ctx, C2)
	if err := e.Validate(); err != nil {
		return nil, err
	}
	e = e.normalized()
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	if err := s.checkAuthor(ctx, op, userID); err != nil {
		return nil, err
	}
	for range maxEditTries {
		date := s.now()
		post, err := s.editPost(ctx, op, userID, postID, e, date)
		if blog.CodeOf(err) != blog.NotFound {
			return post, err
		}
		if post, err = s.editDraft(ctx, userID, postID, e, date); err != errPublished {
			return post, err
		}
	}
	return nil, changedMeanwhile(op)
}

// editPost is EditPost without drafts.
func (s *Store) editPost(
	ctx context.Context, op, userID, postID string, e PostEdit, date blog.Date,
) (*blog.Post, error) {
	update := s.views.UpdateSummaries
	if e.Tags != nil {
		update = s.views.UpdateViews
	}
	raw, same, err := s.editRead(ctx, userID, postID, e, date)
	if same != nil {
		return same, nil
	}
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return nil, blog.NoPost(op)
	}
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
		return nil, s.editError(ctx, op, userID, postID)
	}
	if stored.Ambiguous(ctx, err) {
		if post, readErr := s.readWhole(ctx, postID); readErr == nil && isEdited(post, date, e) {
			update(ctx, post)
			return post, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	post, err := blog.DecodePost(op, raw)
	if post == nil {
		return nil, err
	}
	if e.Content != nil {
		post.Content, post.Truncated = *e.Content, false
	}
	update(ctx, post)
	return post, nil
}

// editRead edits a post and returns the item; if the edit changes nothing, the post. If the tags are edited, the write
// is conditional on the version that had the former ones.
func (s *Store) editRead(
	ctx context.Context, userID, postID string, e PostEdit, date blog.Date,
) (raw []byte, same *blog.Post, err error) {
	for range maxEditTries {
		post, err := s.readPost(ctx, postID)
		if err != nil {
			return nil, nil, err
		}
		if post == nil {
			return nil, nil, blog.NoPost("edit post")
		}
		if post.UserID != userID || e.Version != nil && *e.Version != post.Version {
			return nil, nil, &cosmos.Error{Status: http.StatusPreconditionFailed, Err: errors.New("the post is another")}
		}
		if same, err := s.unchanged(ctx, post, e); same != nil || err != nil {
			return nil, same, err
		}
		if e.Tags == nil {
			raw, err = s.edit(ctx, userID, postID, e, date, nil)
			return raw, nil, err
		}
		post.Retag(distinct(*e.Tags))
		edit := e
		edit.Version = &post.Version
		raw, err = s.edit(ctx, userID, postID, edit, date, post)
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed) {
			return raw, nil, err
		}
	}
	return nil, nil, changedMeanwhile("edit post")
}

// unchanged returns the post if an edit changes nothing of it, and nil otherwise. The replica that the post was read
// from may be behind, and the edit may restore what it still has: so what looks the same is read again.
func (s *Store) unchanged(ctx context.Context, p *blog.Post, e PostEdit) (*blog.Post, error) {
	long := p.Truncated && e.Content != nil && blog.IsLong(*e.Content)
	if long { // a text may be the same if its beginning is
		beginning := (&blog.Post{Content: *e.Content}).StoredExcerpt()
		whole := e
		whole.Content = &beginning
		if !whole.isOf(p) {
			return nil, nil
		}
	} else if !e.isOf(p) {
		return nil, nil
	}
	if e.Title == nil && e.Content == nil && e.Tags == nil {
		return p, nil
	}
	if _, err := s.posts.ReadPrimary(ctx, stored.Key(p.ID, p.ID)); err != nil {
		return nil, stored.Error("edit post", err)
	}
	newest, err := s.readWhole(ctx, p.ID)
	if newest == nil || err != nil || newest.Version != p.Version || !e.isOf(newest) {
		return nil, err
	}
	return newest, nil
}

// isOf reports whether a post has what an edit sets.
func (e PostEdit) isOf(p *blog.Post) bool {
	return (e.Title == nil || *e.Title == p.Title) && (e.Content == nil || *e.Content == p.Content) &&
		(e.Tags == nil || slices.Equal(distinct(*e.Tags), p.Tags))
}

// maxEditTries is how often an edit of tags reads a post that other edits change at the same time.
const maxEditTries = 5

// edit edits a post and returns the item. If tagged is not nil, its tags and former tags are set. The write depends
// on the post's text item, which edit guesses from the id and corrects up to twice.
func (s *Store) edit(
	ctx context.Context, userID, postID string, e PostEdit, date blog.Date, tagged *blog.Post,
) (raw []byte, err error) {
	place := stored.TextPlace{Text: blog.IsLongID(postID)}
	for range 3 {
		raw, err = s.editWithoutRead(ctx, userID, postID, e, date, place, tagged)
		switch {
		case errors.Is(err, errTextPlace):
			var readErr error
			if place, readErr = stored.ReadTextPlace(ctx, "edit post", s.posts, postID); readErr != nil {
				return nil, readErr
			}
			continue
		case e.Content == nil || blog.IsLong(*e.Content) || !cosmos.HasStatus(err, http.StatusPreconditionFailed):
			return raw, err
		}
		post, readErr := s.readPost(ctx, postID)
		if readErr != nil || post == nil || post.Truncated == place.Text {
			return raw, err // another part of the condition has failed
		}
		place.Text = post.Truncated
	}
	return raw, err
}

// errTextPlace is the error of a write of a text whose place is not as expected.
var errTextPlace = changedMeanwhile("edit post")

// editWithoutRead is edit, given what is in the place of the text. If that is wrong, it returns errTextPlace if the new
// text is long, and an error of status 412 otherwise.
func (s *Store) editWithoutRead(
	ctx context.Context, userID, postID string, e PostEdit, date blog.Date, place stored.TextPlace, tagged *blog.Post,
) ([]byte, error) {
	var p cosmos.Patch
	p.Condition, p.ReturnItem = liveAndBy(blog.TypePost, userID), true
	if e.Version != nil {
		p.Condition += fmt.Sprintf(" AND c.version = %d", *e.Version)
	}
	if e.Title != nil {
		p.Set("/title", *e.Title)
	}
	if tagged != nil {
		p.Set("/tags", append([]string{}, tagged.Tags...))
		if tagged.FormerTags != nil {
			p.Set("/formerTags", tagged.FormerTags)
		}
	}
	alone, text := true, (*blog.TextItem)(nil)
	switch {
	case e.Content == nil:
	case blog.IsLong(*e.Content):
		alone, text = false, blog.NewText(postID, userID, *e.Content)
		long := blog.Post{Content: *e.Content}
		p.Set("/content", long.StoredExcerpt())
		p.Set("/readingMinutes", long.Minutes())
		p.Set("/textDigest", text.Digest)
	case place.Text:
		alone = false
		p.Condition += " AND IS_DEFINED(c.textDigest) AND c.textDigest != ''"
		p.Set("/content", *e.Content)
		p.Set("/readingMinutes", 0)
		p.Set("/textDigest", "")
	default:
		p.Condition += " AND (NOT IS_DEFINED(c.textDigest) OR c.textDigest = '')"
		p.Set("/content", *e.Content)
	}
	p.Set("/editDate", date)
	p.Increment("/version", 1)
	p.Increment("/revision", 1)
	if alone {
		r, err := s.posts.Patch(ctx, stored.Key(postID, postID), p)
		return r.Value, err
	}
	r, err := batch(ctx, s.posts, postID, func(b *cosmos.Batch) {
		b.Patch(postID, p)
		if text != nil {
			place.Write(b, text)
		} else {
			b.Upsert(blog.Encode(blog.NewTextTombstone(postID, userID))) // a delete would fail if the text is lost
		}
	})
	if err == nil {
		err = r.Err()
	}
	if r.Failed == 1 && text != nil {
		err = errTextPlace
	}
	if err != nil {
		return nil, err
	}
	return r.Items[0], nil
}

// isEdited reports whether a post, which may be nil, has the fields of an edit.
func isEdited(p *blog.Post, date blog.Date, e PostEdit) bool {
	return p != nil && p.UpdatedAt != nil && *p.UpdatedAt == date && e.isOf(p)
}

// editError returns the error of a conditional edit whose condition failed.
func (s *Store) editError(ctx context.Context, op, userID, postID string) error {
	post, err := s.readPost(ctx, postID)
	switch {
	case err != nil:
		return err
	case post == nil:
		return blog.NoPost(op)
	case post.UserID != userID:
		return notAuthorOfPost(op)
	}
	return outdated(op, post.Version)
}

// outdated returns the Conflict of an edit of another version than the present one.
func outdated(op string, version int32) error {
	return &blog.Error{Code: blog.Conflict, Op: op, Field: "version", Reason: blog.ReasonOutdated,
		Message: fmt.Sprintf("is outdated: the post now has version %d", version)}
}

// DeletePost deletes a post: it replaces the post by a tombstone, at the ETag of a read. It deletes
// the summaries, and the first comments and likes, at once; the projections delete the rest.
// NotFound if the post does not exist, Forbidden if it has another author. A draft is deleted at once.
func (s *Store) DeletePost(ctx context.Context, userID, postID string) error {
	return s.deletePost(ctx, "delete post", by(userID), postID)
}

// RemovePost is DeletePost for moderators: it deletes the posts of all authors, but no drafts.
func (s *Store) RemovePost(ctx context.Context, postID string) error {
	return s.deletePost(ctx, "remove post", byModerator, postID)
}

func (s *Store) deletePost(ctx context.Context, op string, who authorship, postID string) error {
	ctx = s.account.Begin(ctx, DeletePost)
	if !blog.ValidID(postID) {
		return blog.NoPost(op)
	}
	if err := s.checkAuthor(ctx, op, who.userID); err != nil {
		return err
	}
	for range maxDeleteTries {
		deleted, err := s.tryDeletePost(ctx, op, who, postID)
		if blog.CodeOf(err) == blog.NotFound && who.userID != "" {
			err = s.deleteDraft(ctx, op, who.userID, postID)
			if err == errPublished {
				continue
			}
			return err
		}
		if deleted != nil {
			s.views.UpdateViews(ctx, deleted)
		}
		if deleted != nil || err != nil {
			return err
		}
	}
	return changedMeanwhile(op)
}

// maxDeleteTries is how often a deletion reads an item that likes, comments or edits change at the same time.
const maxDeleteTries = 20

// tryDeletePost replaces a post by its tombstone, and returns the deleted post. It returns nil if the post was
// changed meanwhile.
func (s *Store) tryDeletePost(ctx context.Context, op string, who authorship, postID string) (*blog.Post, error) {
	key := stored.Key(postID, postID)
	have, err := s.posts.Read(ctx, key)
	if err != nil {
		return nil, stored.Error(op, err)
	}
	if have.Value == nil {
		return nil, blog.NoPost(op)
	}
	p, err := s.decodePost(op, have.Value)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, blog.NoPost(op)
	case !who.includes(p.UserID):
		return nil, notAuthorOfPost(op)
	}
	if p.WasDraft { // a crash may have left the draft, which would then seem to be one again
		if err := s.dropDraft(ctx, op, p.UserID, p.ID); err != nil {
			return nil, err
		}
	}
	p.Tombstone = true
	p.Revision++
	tombstone := blog.NewPostTombstone(p)
	tombstone.Tags, tombstone.FormerTags = p.Tags, p.FormerTags
	_, err = s.posts.Replace(ctx, key, blog.Encode(tombstone), have.ETag)
	switch {
	case cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound):
		return nil, nil
	case stored.Ambiguous(ctx, err):
		raw, readErr := stored.Read(ctx, op, s.posts, key)
		have, decodeErr := blog.DecodePostOrTombstone(op, raw)
		if readErr == nil && raw != nil && decodeErr == nil && have.Tombstone && who.includes(have.UserID) {
			return have, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return p, nil
}

func changedMeanwhile(op string) error {
	return &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
		Message: "other requests keep changing the same item; try again"}
}

// authorship says whose items a deletion may apply to: those of one author, or of all.
type authorship struct {
	userID string
	all    bool
}

func by(userID string) authorship { return authorship{userID: userID} }

// byModerator allows deletions of everyone's items.
var byModerator = authorship{all: true}

func (a authorship) includes(authorID string) bool { return a.all || a.userID == authorID }

// liveAndBy returns the condition of a patch: the item has the type and the author, and is not deleted.
func liveAndBy(typ, userID string) string {
	return fmt.Sprintf("from c where c.type = '%s' AND NOT IS_DEFINED(c.deleted) AND c.userId = '%s'", typ, userID)
}

func notAuthorOfPost(op string) error {
	return &blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNotYours,
		Message: "only the author can change this post"}
}
