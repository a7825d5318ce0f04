package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

func positionOfPost(p *blog.Post) (blog.Date, string) { return p.CreatedAt, p.ID }

// cachedPost is the name of a post in the item cache.
const cachedPost = "post"

// postStore reads and writes posts and drafts.
type postStore struct {
	*base
	authors *authors
	shown   *shownCounts
}

// Post is Q2: one point read, or two for a long post, whose text is an item of its own. The two reads are concurrent if
// the id tells that the post is long. The id does not tell it if the post was a draft, or became long by an edit.
// Post returns nil if the post does not exist. The post is Truncated if its text is lost.
func (s *postStore) Post(ctx context.Context, id string) (*blog.Post, error) {
	ctx = s.beginRead(ctx, OnePost)
	return cached(ctx, s.posts, id, cachedPost, func(ctx context.Context) (*blog.Post, error) {
		return s.readWhole(ctx, id)
	})
}

// Posts reads posts in one request, or in two if some have become long by edits. result[i] is
// nil if ids[i] does not exist.
func (s *postStore) Posts(ctx context.Context, ids []string) ([]*blog.Post, error) {
	ctx = s.beginRead(ctx, ManyPosts)
	return cachedMany(ctx, s.posts, ids, cachedPost, s.readWholes)
}

// UserPosts is Q3: the summaries of a user's posts, newest first, by one query of the user's
// partition. The page of an unknown user is empty.
func (s *postStore) UserPosts(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	ctx = s.beginRead(ctx, UserPosts)
	p.Order = NewestFirst
	page, err := s.userPostList(userID).page(ctx, p)
	return s.shown.withCounts(ctx, page, err)
}

func (s *postStore) userPostList(userID string) *list[blog.Post] {
	return &list[blog.Post]{op: "list posts of user", container: s.users, key: "userId", partition: userID,
		typ:    blog.TypePost,
		format: blog.Summaries, position: positionOfPost, deletions: s.deletions, show: s.showPost,
		since: s.deletions.HiddenUntil(userID)}
}

// PostCount counts the posts of a user by one query of the user's partition, which the index alone
// answers. It is 0 for an unknown user.
func (s *postStore) PostCount(ctx context.Context, userID string) (int32, error) {
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

// CreatePost is C2: one create, or of a long post one transactional batch. It then writes the summaries, so that the
// author sees the post at once; if that fails, the projections do it. Forbidden if the author has no user yet, Conflict
// if the idempotency key was used for another post, or for one that was deleted.
func (s *postStore) CreatePost(ctx context.Context, n NewPost) (*blog.Post, error) {
	const op = "create post"
	ctx = s.account.Begin(ctx, WritePost)
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

func (s *postStore) tryCreatePost(ctx context.Context, op string, n NewPost, try int) (*blog.Post, error) {
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
	post := n.post(id, author, s.now())
	item, text := blog.NewPostItem(post)
	item.InputDigest = n.digest()
	if other != nil {
		return s.postOfKey(ctx, op, item, other, nil)
	}
	if err := s.publishFiles(ctx, op, post, nil); err != nil {
		return s.firstPostOr(ctx, op, n, item, err)
	}
	item.CoverURL = post.CoverURL
	item.UseFiles(item.Files)
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
	s.indexPost(post.ID, post.UserID, post.CreatedAt)
	return post, nil
}

// authorAndOther returns the author of a new post. If it has an idempotency key, authorAndOther concurrently
// reads the post that an earlier request with the key may have created with a text of the other kind, long
// or short, and hence with another id. Two such requests at the same time both succeed.
func (s *postStore) authorAndOther(
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
	author, err = s.authors.byline(ctx, op, n.AuthorID)
	if otherErr := g.Wait(); err == nil {
		err = otherErr
	}
	return author, other, err
}

// createPost creates a post with its text, which may be nil. Its error has status 409 if the
// post exists.
func (s *postStore) createPost(ctx context.Context, item blog.PostItem, text *blog.TextItem) error {
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
func (s *postStore) firstPost(ctx context.Context, op string, item blog.PostItem) (*blog.Post, error) {
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

// firstPostOr returns the post of an earlier attempt with the idempotency key of a new post whose files cannot be
// published, as the earlier one may have been edited since; without one, err.
func (s *postStore) firstPostOr(
	ctx context.Context, op string, n NewPost, item blog.PostItem, err error,
) (*blog.Post, error) {
	if n.Key == "" {
		return nil, err
	}
	raw, text, readErr := s.readItems(ctx, op, item.ID)
	if raw == nil || readErr != nil {
		return nil, err
	}
	return s.postOfKey(ctx, op, item, raw, text)
}

// updateRecent writes the summaries of a post that is younger than blog.MaxWriteTime.
func (s *postStore) updateRecent(ctx context.Context, p *blog.Post) {
	if p.CreatedAt > blog.NewDate(s.o.Clock().Add(-blog.MaxWriteTime)) {
		s.views.UpdateViews(ctx, p)
	}
}

// postOfKey returns the post that was created with the idempotency key, given its item and, unless it is nil, its text.
// Conflict if it has a different input or has been deleted; errIDTaken if it is another post. Without a key, it is an
// attempt of the same request whose response was lost.
func (s *postStore) postOfKey(
	ctx context.Context, op string, item blog.PostItem, raw, text []byte,
) (*blog.Post, error) {
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

// DeletePost deletes a post: it replaces the post by a tombstone, at the ETag of a read. It deletes
// the summaries, and the first comments and likes, at once; the projections delete the rest.
// NotFound if the post does not exist, Forbidden if it has another author. A draft is deleted at once.
func (s *postStore) DeletePost(ctx context.Context, userID, postID string) error {
	return s.deletePost(ctx, "delete post", byAuthor(userID), postID)
}

// RemovePost is DeletePost for moderators: it deletes the posts of all authors, but no drafts.
func (s *postStore) RemovePost(ctx context.Context, postID string) error {
	return s.deletePost(ctx, "remove post", byModerator, postID)
}

func (s *postStore) deletePost(ctx context.Context, op string, who authorship, postID string) error {
	ctx = s.account.Begin(ctx, DeletePost)
	if !blog.ValidID(postID) {
		return blog.NoPost(op)
	}
	if err := s.authors.check(ctx, op, who.userID); err != nil {
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

// tryDeletePost replaces a post by its tombstone, and returns the deleted post. It returns nil if the post was
// changed meanwhile.
func (s *postStore) tryDeletePost(ctx context.Context, op string, who authorship, postID string) (*blog.Post, error) {
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
	tombstone.Tags, tombstone.FormerTags, tombstone.Files = p.Tags, p.FormerTags, p.Files
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

// versionOutdated returns the Conflict of an edit of another version than the present one.
func versionOutdated(op string, version int32) error {
	return &blog.Error{Code: blog.Conflict, Op: op, Field: "version", Reason: blog.ReasonOutdated,
		Message: fmt.Sprintf("is outdated: the post now has version %d", version)}
}

func notAuthorOfPost(op string) error {
	return &blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNotYours,
		Message: "only the author can change this post"}
}

// IsDeletedSlug reports whether the post at a slug has been deleted: a point read of its tombstone, which expires.
func (s *postStore) IsDeletedSlug(ctx context.Context, slug string) (bool, error) {
	const op = "look for deleted post"
	id := blog.PostIDOfSlug(slug)
	if !blog.ValidID(id) {
		return false, nil
	}
	ctx = s.beginRead(ctx, OnePost)
	return cached(ctx, s.posts, id, "tombstone", func(ctx context.Context) (bool, error) {
		raw, err := stored.Read(ctx, op, s.posts, stored.Key(id, id))
		if raw == nil || err != nil {
			return false, err
		}
		p, err := blog.DecodePostOrTombstone(op, raw)
		return p != nil && p.Tombstone, err
	})
}
