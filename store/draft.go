package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// A draft is one item in its author's partition of the users container, whatever its length. Its post gets the same id.
// The projections ignore drafts, and reads of posts do not return them. Drafts are not in the item cache, and so no
// cached response has one.
//
// A publication has three steps, each of which can be repeated: mark the draft as Publishing, create the post, and
// delete the draft. The mark is one patch that also returns the text to publish. An edit before the patch is therefore
// published. An edit after it fails on the draft; the edit then finishes the publication and is applied to the post. A
// deletion after the mark creates, if there is no post yet, a tombstone with its id, so that no repetition creates it.
//
// A crash after the mark leaves the draft. While there is no post, it is read as a draft. Once there is a post, it
// is not: reads by id look for the post first, and reads of marked drafts look for posts and tombstones with their ids.
// The next publication, or the deletion of the post, deletes the draft.

// maxDrafts is how many drafts a user can have. Drafts that are created at the same time may exceed it.
const maxDrafts = 200

// draftKey returns the key of the draft of a post.
func draftKey(userID, postID string) cosmos.Key { return stored.Key(userID, blog.DraftID(postID)) }

// draftOf is what is read of a draft: the draft with its text, without the author's username.
type draftOf struct {
	*blog.Post
	inputDigest string
	item        cosmos.Item
}

// decodeDraft decodes a draft. It returns nil for nil, and if the draft is hidden.
func (s *postStore) decodeDraft(op string, item cosmos.Item) (*draftOf, error) {
	if item.Value == nil {
		return nil, nil
	}
	d, ok, err := blog.Decode[blog.DraftItem](op, blog.TypeDraft, item.Value)
	if !ok || err != nil || s.visible(&d.Post) == nil {
		return nil, err
	}
	return &draftOf{d.Whole(), d.InputDigest, item}, nil
}

// readDraft reads a draft. It returns nil if it does not exist.
func (s *postStore) readDraft(ctx context.Context, op, userID, postID string) (*draftOf, error) {
	item, err := s.users.Read(ctx, draftKey(userID, postID))
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return s.decodeDraft(op, item)
}

// Drafts reads a user's drafts in one request, with their texts. result[i] is nil if the user has no draft with ids[i].
// The caller has looked for posts with the ids before.
func (s *postStore) Drafts(ctx context.Context, userID string, ids []string) ([]*blog.Post, error) {
	const op = "read drafts"
	ctx = s.beginRead(ctx, ManyDrafts)
	if !blog.ValidID(userID) {
		return make([]*blog.Post, len(ids)), nil
	}
	drafts, err := stored.ReadAll(ctx, op, s.users, ids, func(id string) cosmos.Key { return draftKey(userID, id) },
		func(op string, raw []byte) (*blog.Post, error) {
			d, err := s.decodeDraft(op, cosmos.Item{Value: raw})
			if d == nil || err != nil {
				return nil, err
			}
			return d.Post, nil
		},
		func(p *blog.Post) string { return p.ID })
	if err != nil {
		return nil, err
	}
	posts, err := s.publications(ctx, slices.Values(drafts))
	if err != nil {
		return nil, err
	}
	for i, d := range drafts {
		if d != nil && posts[d.ID] != nil && posts[d.ID].Tombstone {
			drafts[i] = nil
		}
	}
	return drafts, s.nameAuthor(ctx, op, userID, drafts)
}

// publications reads the posts of drafts that are Publishing, tombstones included, by id. No other draft can have one.
func (s *postStore) publications(ctx context.Context, drafts iter.Seq[*blog.Post]) (map[string]*blog.Post, error) {
	var ids []string
	for d := range drafts {
		if d != nil && d.Publishing {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	posts, err := stored.ReadPosts(ctx, s.posts, ids, blog.DecodePostOrTombstone)
	byID := map[string]*blog.Post{}
	for _, p := range posts {
		if p != nil {
			byID[p.ID] = p
		}
	}
	return byID, err
}

// nameAuthor sets the byline of drafts, some of which may be nil.
func (s *postStore) nameAuthor(ctx context.Context, op, userID string, drafts []*blog.Post) error {
	if !slices.ContainsFunc(drafts, func(p *blog.Post) bool { return p != nil }) {
		return nil
	}
	author, err := s.authors.byline(ctx, op, userID)
	for _, p := range drafts {
		if p != nil {
			p.Byline = author
		}
	}
	return err
}

// UserDrafts lists a user's drafts, most recently created first, by one query of the user's partition. Texts that are
// longer than the excerpt are Truncated.
func (s *postStore) UserDrafts(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	const op = "list drafts"
	ctx = s.beginRead(ctx, Drafts)
	p.Order = NewestFirst
	page, err := s.draftList(userID).page(ctx, p)
	if err != nil {
		return nil, err
	}
	return page, s.nameAuthor(ctx, op, userID, page.Items)
}

func (s *postStore) draftList(userID string) *list[blog.Post] {
	l := s.userPostList(userID)
	l.op, l.typ, l.format, l.uncached = "list drafts", blog.TypeDraft, blog.Drafts, true
	l.defaults, l.filter = blog.Post{IsDraft: true}, s.unpublished
	l.position = func(p *blog.Post) (blog.Date, string) { return p.CreatedAt, blog.DraftID(p.ID) }
	return l
}

// PostCursor returns the cursor that a post has in UserPosts of its author, or a draft in UserDrafts.
func (s *postStore) PostCursor(p *blog.Post) string {
	if p.IsDraft {
		return s.draftList(p.UserID).cursor(p, NewestFirst)
	}
	return s.userPostList(p.UserID).cursor(p, NewestFirst)
}

// unpublished returns the drafts that have neither posts nor tombstones.
func (s *postStore) unpublished(ctx context.Context, drafts []blog.Post) ([]blog.Post, error) {
	posts, err := s.publications(ctx, func(yield func(*blog.Post) bool) {
		for i := range drafts {
			if !yield(&drafts[i]) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(drafts, func(d blog.Post) bool { return posts[d.ID] != nil }), nil
}

// CreateDraft creates a draft: one query that counts the author's, and one create. Forbidden if the author has no user
// yet, LimitReached if they have maxDrafts drafts, Conflict if the idempotency key was used for another draft. If the
// draft with the key has been published, the result is the post; if it was deleted, it is created again.
func (s *postStore) CreateDraft(ctx context.Context, n NewPost) (*blog.Post, error) {
	const op = "create draft"
	ctx = s.account.Begin(ctx, CreateDraft)
	if err := n.Validate(); err != nil {
		return nil, err
	}
	n = n.normalized()
	author, err := s.authors.byline(ctx, op, n.AuthorID)
	if err != nil {
		return nil, err
	}
	d, digest := n.post(newPostID(n.Key, blog.TypeDraft, n.AuthorID), author, s.now()), n.digest()
	d.IsDraft = true
	if n.Key != "" {
		if first, err := s.firstDraft(ctx, op, d, digest); first != nil || err != nil {
			return first, err
		}
	}
	if err := s.checkDrafts(ctx, op, author.UserID); err != nil {
		return nil, err
	}
	if err := s.publishFiles(ctx, op, d, nil); err != nil {
		return nil, err
	}
	item := blog.NewDraftItem(d)
	item.InputDigest = digest
	err = s.users.Create(ctx, author.UserID, blog.Encode(item))
	if cosmos.HasStatus(err, http.StatusConflict) || stored.Ambiguous(ctx, err) {
		if first, readErr := s.firstDraft(ctx, op, d, digest); first != nil || blog.CodeOf(readErr) == blog.Conflict {
			return first, readErr
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return d, nil
}

// firstDraft returns what an earlier attempt with the idempotency key of a new draft has created: a draft, or the post
// that it has become. It returns nil without such an attempt, Conflict if that had another input or the post was
// deleted.
func (s *postStore) firstDraft(ctx context.Context, op string, n *blog.Post, digest string) (*blog.Post, error) {
	d, err := s.readDraft(ctx, op, n.UserID, n.ID)
	switch {
	case err != nil:
		return nil, err
	case d != nil && d.inputDigest != digest:
		return nil, keyUsed(op, true)
	case d != nil && !d.Publishing:
		d.Byline = n.Byline
		return d.Post, nil
	}
	raw, text, err := s.readItems(ctx, op, n.ID)
	if err != nil {
		return nil, err
	}
	if raw == nil && d != nil {
		d.Byline = n.Byline
		return d.Post, nil
	}
	if raw == nil {
		return nil, nil
	}
	first, err := s.postOfKey(ctx, op, blog.PostItem{Post: blog.Post{Byline: n.Byline}, InputDigest: digest}, raw, text)
	if err == errIDTaken {
		err = keyUsed(op, true)
	}
	return first, err
}

// checkDrafts returns LimitReached if a user has maxDrafts drafts.
func (s *postStore) checkDrafts(ctx context.Context, op, userID string) error {
	n, err := s.countDrafts(ctx, op, userID)
	if err == nil && n >= maxDrafts {
		err = &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonLimit,
			Message: fmt.Sprintf("you have %d drafts, as many as you can have: publish or delete some", maxDrafts)}
	}
	return err
}

func (s *postStore) countDrafts(ctx context.Context, op, userID string) (int, error) {
	return countItems(ctx, op, s.users, cosmos.Query{Partition: userID,
		Text: "SELECT VALUE COUNT(1) FROM c WHERE c.userId = @user AND c.type = @type",
	}.With("@user", userID).With("@type", blog.TypeDraft))
}

// DraftCount counts the drafts of a user by one query of the user's partition.
func (s *postStore) DraftCount(ctx context.Context, userID string) (int32, error) {
	n, err := s.countDrafts(s.beginRead(ctx, PostCount), "count drafts", userID)
	return int32(n), err
}

// errPublished is the error of a change of a draft that has become a post.
var errPublished = errors.New("the draft has become a post")

// noDraft returns errPublished if a post has the id of a missing draft, and NotFound otherwise.
func (s *postStore) noDraft(ctx context.Context, op, postID string) error {
	post, err := s.readPost(ctx, postID)
	switch {
	case err != nil:
		return err
	case post != nil:
		return errPublished
	}
	return blog.NoPost(op)
}

// editDraft is EditPost for drafts: a read, and a replacement if the draft has not changed since. It returns
// errPublished if the draft has become a post.
func (s *postStore) editDraft(
	ctx context.Context, userID, postID string, e PostEdit, date blog.Date,
) (*blog.Post, error) {
	const op = "edit draft"
	author, err := s.authors.byline(ctx, op, userID)
	if err != nil {
		return nil, err
	}
	for try := range maxEditTries {
		d, err := s.readDraftForEdit(ctx, op, userID, postID, try > 0)
		switch {
		case err != nil:
			return nil, err
		case d == nil:
			return nil, s.noDraft(ctx, op, postID)
		case d.Publishing:
			if _, err = s.finishPublication(ctx, op, author, d); err == nil {
				err = errPublished
			}
			return nil, err
		}
		edited, differs := e.of(d.Post, date)
		outdatedNow := e.Version != nil && *e.Version != d.Version
		if try == 0 && (outdatedNow || !differs && !e.isEmpty()) {
			continue // the replica may lag
		}
		if outdatedNow {
			return nil, versionOutdated(op, d.Version)
		}
		if !differs {
			d.Byline = author
			return d.Post, nil
		}
		edited.Revision++
		if err := s.publishFiles(ctx, op, edited, d.Files); err != nil {
			return nil, err
		}
		err = s.replaceDraft(ctx, d, edited)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			continue
		}
		if stored.Ambiguous(ctx, err) {
			if now, _ := s.readDraft(ctx, op, userID, postID); now != nil && e.isEdited(now.Post, date) {
				edited, err = now.Post, nil
			}
		}
		if err != nil {
			return nil, stored.Error(op, err)
		}
		edited.Byline = author
		return edited, nil
	}
	return nil, changedMeanwhile(op)
}

// readDraftForEdit is readDraft, from the primary replica if primary is true.
func (s *postStore) readDraftForEdit(ctx context.Context, op, userID, postID string, primary bool) (*draftOf, error) {
	if !primary {
		return s.readDraft(ctx, op, userID, postID)
	}
	raw, err := s.users.ReadPrimary(ctx, draftKey(userID, postID))
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return s.decodeDraft(op, cosmos.Item{Value: raw, ETag: stored.ETagOf(raw)})
}

// replaceDraft replaces a draft that has not changed since it was read.
func (s *postStore) replaceDraft(ctx context.Context, read *draftOf, edited *blog.Post) error {
	item := blog.NewDraftItem(edited)
	item.InputDigest = read.inputDigest
	raw, err := itemjson.EncodeOver(item, read.item.Value)
	if err == nil {
		_, err = s.users.Replace(ctx, draftKey(edited.UserID, edited.ID), raw, read.item.ETag)
	}
	return err
}

// PublishPost publishes a draft, with the present date: it marks it, creates the post, and deletes the draft. The post
// has the draft's id and version. It changes nothing if the draft has been published. NotFound if the user has no draft
// with the id, Forbidden if it is a post of another author.
func (s *postStore) PublishPost(ctx context.Context, userID, postID string) (*blog.Post, error) {
	const op = "publish post"
	ctx = s.account.Begin(ctx, PublishPost)
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	author, err := s.authors.byline(ctx, op, userID)
	if err != nil {
		return nil, err
	}
	p := cosmos.Patch{Condition: liveAndBy(blog.TypeDraft, userID), ReturnItem: true}
	p.Set("/publishing", true)
	item, err := s.users.Patch(ctx, draftKey(userID, postID), p)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		post, _, err := s.publishedPost(ctx, op, userID, postID)
		return post, orNoPost(op, post, err)
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	d, err := s.decodeDraft(op, item)
	if d == nil || err != nil {
		return nil, orNoPost(op, nil, err)
	}
	return s.finishPublication(ctx, op, author, d)
}

// finishPublication creates the post of a draft that is Publishing, and then deletes the draft. Nobody edits the draft
// any more, so the deletion needs no ETag.
func (s *postStore) finishPublication(
	ctx context.Context, op string, author blog.Byline, d *draftOf,
) (*blog.Post, error) {
	post := *d.Post
	post.IsDraft, post.Publishing, post.WasDraft = false, false, true
	post.Byline, post.CreatedAt, post.UpdatedAt, post.Revision = author, s.now(), nil, 1
	item, text := blog.NewPostItem(&post)
	item.InputDigest = d.inputDigest
	published := &post
	err := s.createPost(ctx, item, text)
	switch {
	case cosmos.HasStatus(err, http.StatusConflict), stored.Ambiguous(ctx, err):
		first, exists, readErr := s.publishedPost(ctx, op, author.UserID, post.ID)
		if readErr != nil || !exists {
			return nil, stored.Error(op, cmp.Or(readErr, err))
		}
		published = first
	case err != nil:
		return nil, stored.Error(op, err)
	default:
		s.views.UpdateViews(ctx, published)
		s.indexPost(published.ID, published.UserID, published.CreatedAt)
	}
	err = s.dropDraft(ctx, op, author.UserID, post.ID)
	return published, orNoPost(op, published, err)
}

// publishedPost returns the post of a draft that is being or has been published, nil if it was deleted; exists reports
// whether there is or was one. If it is younger than blog.MaxWriteTime, it writes the summaries: see firstPost.
// Forbidden if the post has another author.
func (s *postStore) publishedPost(
	ctx context.Context, op, userID, postID string,
) (p *blog.Post, exists bool, err error) {
	raw, text, err := s.readItems(ctx, op, postID)
	if raw == nil || err != nil {
		return nil, false, err
	}
	item, ok, err := decodePostItem(op, raw)
	if !ok || err != nil {
		return nil, true, err
	}
	if p, err = s.withText(ctx, op, item, text); err != nil || s.visible(p) == nil {
		return nil, true, err
	}
	if p.UserID != userID {
		return nil, true, notAuthorOfPost(op)
	}
	s.updateRecent(ctx, p)
	return p, true, nil
}

// orNoPost returns err, or NotFound if a post is nil.
func orNoPost(op string, p *blog.Post, err error) error {
	if p == nil && err == nil {
		err = blog.NoPost(op)
	}
	return err
}

// dropDraft deletes a draft, which may be missing.
func (s *postStore) dropDraft(ctx context.Context, op, userID, postID string) error {
	err := s.users.Delete(ctx, draftKey(userID, postID), "")
	if cosmos.HasStatus(err, http.StatusNotFound) {
		err = nil
	}
	return stored.Error(op, err)
}

// withdraw ends the publication of a deleted draft whose post has not been created: a tombstone takes its place, so
// that no request creates it any more. It returns errPublished if there is a post, and NotFound if there is a
// tombstone.
func (s *postStore) withdraw(ctx context.Context, op string, d *draftOf) error {
	author := blog.Byline{UserID: d.UserID}
	tombstone := blog.NewPostTombstone(&blog.Post{ID: d.ID, Byline: author, CreatedAt: d.CreatedAt, Revision: 1})
	err := s.posts.Create(ctx, d.ID, blog.Encode(tombstone))
	if !cosmos.HasStatus(err, http.StatusConflict) && !stored.Ambiguous(ctx, err) {
		return stored.Error(op, err)
	}
	raw, readErr := stored.Read(ctx, op, s.posts, stored.Key(d.ID, d.ID))
	if readErr != nil {
		return readErr
	}
	have, decodeErr := blog.DecodePostOrTombstone(op, raw)
	switch {
	case raw == nil:
		return stored.Error(op, err)
	case decodeErr != nil:
		return decodeErr
	case !have.Tombstone:
		return errPublished
	case cosmos.HasStatus(err, http.StatusConflict): // of an earlier deletion
		return blog.NoPost(op)
	}
	return nil
}

// deleteDraft is DeletePost for drafts: it deletes the draft at the ETag of a read, and leaves nothing of it. It
// returns errPublished if the draft has become a post.
func (s *postStore) deleteDraft(ctx context.Context, op, userID, postID string) error {
	for range maxDeleteTries {
		d, err := s.readDraft(ctx, op, userID, postID)
		if err != nil {
			return err
		}
		if d == nil {
			return s.noDraft(ctx, op, postID)
		}
		if d.Publishing { // as long as it may become a post, it is there for a repetition of the request
			withdrawn := s.withdraw(ctx, op, d)
			if withdrawn != nil && withdrawn != errPublished && blog.CodeOf(withdrawn) != blog.NotFound {
				return withdrawn
			}
			if err := s.dropDraft(ctx, op, userID, postID); err != nil {
				return err
			}
			return withdrawn
		}
		err = s.users.Delete(ctx, draftKey(userID, postID), d.item.ETag)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			continue
		}
		if stored.Ambiguous(ctx, err) {
			if left, readErr := s.readDraft(ctx, op, userID, postID); readErr == nil && left == nil {
				return nil
			}
		}
		return stored.Error(op, err)
	}
	return changedMeanwhile(op)
}
