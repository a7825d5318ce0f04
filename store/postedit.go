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
	"byline/store/stored"
)

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

// EditPost is the edit of C2: a read, and one patch that requires the version that was read, so that likes and comments
// do not conflict with it, in a transactional batch with the write of a long text. An edit without a change writes
// nothing. NotFound if the post does not exist, Forbidden if it has another author, Conflict if Version is stale. The
// summaries are written as by CreatePost. If the content of a long post is not edited, the result is Truncated. A draft,
// which no view has, is a read and a replacement more.
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

// maxEditTries is how often an edit reads a post or draft that other edits change at the same time.
const maxEditTries = 5

// isEmpty reports whether an edit sets nothing.
func (e PostEdit) isEmpty() bool { return e.Title == nil && e.Content == nil && e.Tags == nil }

// of returns an edited copy of a post or draft, and whether it differs. Content of which only the beginning is known
// differs.
func (e PostEdit) of(p *blog.Post, date blog.Date) (edited *blog.Post, differs bool) {
	c := *p
	if e.Title != nil {
		c.Title = *e.Title
	}
	if e.Tags != nil {
		c.Retag(distinct(*e.Tags))
	}
	if e.Content != nil {
		c.Content, c.Truncated = *e.Content, false
	}
	differs = c.Title != p.Title || c.Content != p.Content || c.Truncated != p.Truncated || !slices.Equal(c.Tags, p.Tags)
	c.UpdatedAt = &date
	c.Version++
	return &c, differs
}

// isEdited reports whether a post or draft, which may be nil, is the result of an edit.
func (e PostEdit) isEdited(p *blog.Post, date blog.Date) bool {
	if p == nil || p.UpdatedAt == nil || *p.UpdatedAt != date {
		return false
	}
	_, differs := e.of(p, date)
	return !differs
}

// editPost is EditPost without drafts. What the first read refuses is read again from the primary replica, as others
// may lag.
func (s *Store) editPost(
	ctx context.Context, op, userID, postID string, e PostEdit, date blog.Date,
) (*blog.Post, error) {
	textLost := false
	for try := range maxEditTries {
		before, post, err := s.readForEdit(ctx, op, postID, try > 0)
		if post == nil {
			return nil, orNoPost(op, nil, err)
		}
		switch {
		case post.UserID != userID:
			err = notAuthorOfPost(op)
		case e.Version != nil && *e.Version != post.Version:
			err = outdated(op, post.Version)
		}
		edited, differs := e.of(post, date)
		after, text := blog.NewPostItem(edited)
		after.FormerTags, after.InputDigest = edited.FormerTags, before.InputDigest
		switch {
		case e.Content == nil:
			text = nil
			after.Content, after.ReadingMinutes, after.TextDigest = before.Content, before.ReadingMinutes, before.TextDigest
		case text != nil && text.Digest == before.TextDigest: // the long text is the same
			text, differs = nil, after.Title != before.Title || !slices.Equal(after.Tags, before.Tags)
		}
		if try == 0 && (err != nil || !differs && !e.isEmpty()) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !differs {
			return s.withText(ctx, op, before, nil)
		}
		raw, err := s.writeEdit(ctx, before, after, text, textLost)
		switch {
		case err == errTextLost:
			textLost = true
			continue
		case cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound):
			continue
		case stored.Ambiguous(ctx, err):
			now, readErr := s.readWhole(ctx, postID)
			if readErr != nil || !e.isEdited(now, date) {
				return nil, stored.Error(op, err)
			}
			edited = now
		case err != nil:
			return nil, stored.Error(op, err)
		default:
			if edited, err = blog.DecodePost(op, raw); edited == nil {
				return nil, err
			}
			if e.Content != nil {
				edited.Content, edited.Truncated = *e.Content, false
			}
		}
		if slices.Equal(before.Tags, after.Tags) {
			s.views.UpdateSummaries(ctx, edited)
		} else {
			s.views.UpdateViews(ctx, edited)
		}
		return edited, nil
	}
	return nil, changedMeanwhile(op)
}

// readForEdit reads a post without the text of a long one, from the primary replica if primary is true. The post is nil
// if it does not exist.
func (s *Store) readForEdit(
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
	item, _, err = decodePostItem(op, raw)
	if err == nil {
		post, err = blog.DecodePost(op, raw)
	}
	return item, s.visible(post), err
}

// errTextLost is the error of an edit of a post whose text does not exist.
var errTextLost = errors.New("the text of the post is lost")

// writeEdit writes the changed properties of a post, if it still has the version that was read, and its text: a new
// one, or a tombstone instead of the former one. It returns the item.
func (s *Store) writeEdit(
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
	if r.Failed == len(parts) && text != nil {
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
