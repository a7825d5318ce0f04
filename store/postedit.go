package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/projection"
	"byline/store/stored"
)

// EditPost is the edit of C2: a read, and one patch that requires the version that was read, so that likes and comments
// do not conflict with it, in a transactional batch with the write of a long text. An edit without a change writes
// nothing. NotFound if the post does not exist, Forbidden if it has another author, Conflict if Version is stale. The
// summaries are written as by CreatePost. If the content of a long post is not edited, the result is Truncated. A
// draft, which no view has, is a read and a replacement more.
func (s *postStore) EditPost(ctx context.Context, userID, postID string, e PostEdit) (*blog.Post, error) {
	const op = "edit post"
	ctx = s.account.Begin(ctx, WritePost)
	if err := e.Validate(); err != nil {
		return nil, err
	}
	e = e.normalized()
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	if err := s.authors.check(ctx, op, userID); err != nil {
		return nil, err
	}
	for range maxEditTries {
		date := s.now()
		post, err := s.editPost(ctx, op, userID, postID, e, date)
		if !isNoPost(err) {
			return post, err
		}
		if post, err = s.editDraft(ctx, userID, postID, e, date); err != errPublished {
			return post, err
		}
	}
	return nil, changedMeanwhile(op)
}

// isNoPost reports whether an error says that a post does not exist, rather than a file that it is to use.
func isNoPost(err error) bool {
	var e *blog.Error
	return errors.As(err, &e) && e.Code == blog.NotFound && e.Field == ""
}

// items returns what a post is stored as after an edit. text is nil unless the edit sets a long one.
func (e PostEdit) items(before blog.PostItem, edited *blog.Post) (after blog.PostItem, text *blog.TextItem) {
	after = before
	after.Post, after.FormerTags = *edited, edited.FormerTags
	if e.Content != nil {
		var item blog.PostItem
		item, text = blog.NewPostItem(edited)
		after.Content, after.ReadingMinutes, after.TextDigest = item.Content, item.ReadingMinutes, item.TextDigest
		after.Files = item.Files
	}
	return after, text
}

// editPost is EditPost without drafts. An edit that the first read refuses, or finds to change nothing, is decided by a
// read from the primary replica, as others may lag.
func (s *postStore) editPost(
	ctx context.Context, op, userID, postID string, e PostEdit, date blog.Date,
) (*blog.Post, error) {
	textLost := false
	for try := range maxEditTries {
		before, post, err := s.readForEdit(ctx, op, postID, try > 0)
		if post == nil {
			return nil, orNoPost(op, nil, err)
		}
		refusal := e.refusal(op, userID, post)
		edited, differs := e.of(post, date)
		after, text := e.items(before, edited)
		var whole *blog.Post
		if !differs || text != nil && text.Digest == before.TextDigest {
			if whole, err = s.withText(ctx, op, before, nil); whole == nil {
				return nil, orNoPost(op, nil, err)
			}
			if _, differs = e.of(whole, date); !whole.Truncated {
				text = nil
			}
			textLost = textLost || whole.Truncated
		}
		if try == 0 && (refusal != nil || !differs && !e.isEmpty()) {
			continue
		}
		if refusal != nil {
			return nil, refusal
		}
		if !differs {
			return whole, nil
		}
		if err := s.publishFiles(ctx, op, edited, post.Files); err != nil {
			return nil, err
		}
		after.CoverURL = edited.CoverURL
		after.UseFiles(after.Files)
		raw, err := s.writeEdit(ctx, before, after, text, textLost)
		if err == errTextLost {
			textLost = true
			continue
		}
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			continue
		}
		if edited, err = s.editResult(ctx, op, postID, e, date, raw, err); edited == nil {
			return nil, err
		}
		s.views.UpdateEdited(ctx, edited, projection.Edit{Tags: !slices.Equal(before.Tags, after.Tags),
			Texts: before.Title != after.Title || before.Content != after.Content ||
				before.TextDigest != after.TextDigest})
		return edited, nil
	}
	return nil, changedMeanwhile(op)
}

// refusal returns the error of an edit that the user may not make, or not of this version.
func (e PostEdit) refusal(op, userID string, p *blog.Post) error {
	switch {
	case p.UserID != userID:
		return notAuthorOfPost(op)
	case e.Version != nil && *e.Version != p.Version:
		return versionOutdated(op, p.Version)
	}
	return nil
}

// editResult returns the post after the write of an edit, given the written item or the error of the write: nil, and an
// error, unless the edit has been made.
func (s *postStore) editResult(
	ctx context.Context, op, postID string, e PostEdit, date blog.Date, raw []byte, err error,
) (*blog.Post, error) {
	if stored.Ambiguous(ctx, err) {
		if now, readErr := s.readWhole(ctx, postID); readErr == nil && e.isEdited(now, date) {
			return now, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	p, err := blog.DecodePost(op, raw)
	if p != nil && e.Content != nil {
		p.Content, p.Truncated = *e.Content, false
	}
	return p, err
}

// readForEdit reads a post without the text of a long one, from the primary replica if primary is true. The post is nil
// if it does not exist.
func (s *postStore) readForEdit(
	ctx context.Context, op, postID string, primary bool,
) (item blog.PostItem, post *blog.Post, err error) {
	read := func() ([]byte, error) { return stored.Read(ctx, op, s.posts, stored.Key(postID, postID)) }
	if primary {
		read = func() ([]byte, error) { return s.posts.ReadPrimary(ctx, stored.Key(postID, postID)) }
	}
	raw, err := read()
	if raw == nil || err != nil {
		return item, nil, stored.Error(op, err)
	}
	item, ok, err := decodePostItem(op, raw)
	if !ok || err != nil {
		return item, nil, err
	}
	return item, s.visible(item.WithoutText()), nil
}

// errTextLost is the error of an edit of a post whose text does not exist.
var errTextLost = errors.New("the text of the post is lost")

// writeEdit writes the changed properties of a post, if it still has the version that was read, and its text: a new
// one, or a tombstone instead of the former one. It returns the item.
func (s *postStore) writeEdit(
	ctx context.Context, before, after blog.PostItem, text *blog.TextItem, textLost bool,
) ([]byte, error) {
	p := changesOf(before, after)
	p.Increment("/revision", 1) // which likes and comments increment, too
	p.Condition = fmt.Sprintf("%s AND c.version = %d", liveAndBy(blog.TypePost, before.UserID), before.Version)
	p.ReturnItem = true
	parts := p.Split()
	if len(parts) == 1 && text == nil && (before.TextDigest == "" || after.TextDigest != "") {
		r, err := s.posts.Patch(ctx, stored.Key(before.ID, before.ID), p)
		return r.Value, err
	}
	r, err := batch(ctx, s.posts, before.ID, func(b *cosmos.Batch) {
		for _, part := range parts {
			b.Patch(before.ID, part)
		}
		switch {
		case text != nil:
			stored.WriteText(b, text, before.TextDigest != "" && !textLost)
		case before.TextDigest != "" && after.TextDigest == "":
			b.Upsert(blog.Encode(blog.NewTextTombstone(before.ID, before.UserID))) // a delete would fail if it is lost
		}
	})
	if err == nil {
		err = r.Err()
	}
	if r.Failed == len(parts) && text != nil && !textLost {
		err = errTextLost
	}
	if err != nil {
		return nil, err
	}
	return r.Items[len(parts)-1], nil
}

// changesOf returns the patch that changes one version of a post into another.
func changesOf(before, after blog.PostItem) (p cosmos.Patch) {
	properties := func(i blog.PostItem) (all map[string]json.RawMessage) {
		if err := json.Unmarshal(blog.Encode(i), &all); err != nil {
			panic(err)
		}
		return all
	}
	old, changed := properties(before), properties(after)
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if !bytes.Equal(old[name], changed[name]) {
			p.SetJSON("/"+name, changed[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if changed[name] == nil {
			p.Remove("/" + name)
		}
	}
	return p
}
