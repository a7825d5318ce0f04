package projection

import (
	"context"
	"fmt"
	"net/http"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// textView is the view of long texts, which are items of their own.
type textView struct{ *base }

func (t *textView) kind() Kind { return Text }

func (t *textView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for id, p := range s.posts {
		if p.text != p.wantText || p.inline || p.alone {
			found = append(found, Difference{Kind: Text, Partition: id, ID: id})
		}
	}
	return found, nil
}

func (t *textView) replaySuspects(_ context.Context, posts map[string]*blog.Post) (found []Difference, _ error) {
	for _, p := range posts {
		if !p.Tombstone && (p.Truncated || blog.IsLong(p.Content)) {
			found = append(found, Difference{Kind: Text, Partition: p.ID, ID: p.ID})
		}
	}
	return found, nil
}

// Values of Difference.Have and Want of a text.
const (
	textInPost = "on the post"
	textOfPost = "text "
)

// compare compares a post with its text item. The difference's ID is the post's.
func (t *textView) compare(ctx context.Context, d Difference) (*Difference, error) {
	const op = "verify"
	rawText, err := stored.Read(ctx, op, t.posts, stored.Key(d.ID, blog.TextID))
	if err != nil {
		return nil, err
	}
	raw, err := stored.Read(ctx, op, t.posts, stored.Key(d.ID, d.ID))
	if err != nil {
		return nil, err
	}
	var post blog.PostItem
	if raw != nil {
		if post, _, err = blog.Decode[blog.PostItem](op, blog.TypePost, raw); err != nil {
			return nil, err
		}
	}
	d.Have, d.Want = absent, absent
	alone := false
	if rawText != nil {
		text, ok, err := blog.Decode[blog.TextItem](op, blog.TypeText, rawText)
		switch {
		case err != nil:
			d.Have = unreadable
		case ok:
			d.Have, alone = textOfPost+text.Digest, !blog.IsLong(text.Content)
		}
	}
	switch {
	case post.Deleted:
	case post.TextDigest != "":
		if d.Want = textOfPost + post.TextDigest; alone && d.Have == d.Want {
			d.Want = textInPost
		}
	case blog.IsLong(post.Content):
		d.Have, d.Want = textInPost, textOfPost+blog.NewText(d.ID, post.UserID, post.Content).Digest
	}
	if d.Have == d.Want {
		return nil, nil
	}
	if post.Deleted {
		if deleting, err := t.deletionPending(ctx, d.ID, post.UserID); deleting || err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// repair moves a long text on a post to a text item and a short one back, or deletes a text item without a post.
func (t *textView) repair(ctx context.Context, d Difference) error {
	var b cosmos.Batch
	b.NoItems = true
	var p cosmos.Patch
	var orphan cosmos.Item
	switch {
	case d.Have == textInPost:
		raw, err := stored.Read(ctx, "repair", t.posts, stored.Key(d.ID, d.ID))
		if raw == nil || err != nil {
			return err
		}
		post, err := blog.DecodePost("repair", raw)
		if post == nil || err != nil || post.Truncated || !blog.IsLong(post.Content) {
			return err // compare again
		}
		old, err := stored.Read(ctx, "repair", t.posts, stored.Key(d.ID, blog.TextID))
		if err != nil {
			return err
		}
		have, _, err := blog.Decode[blog.TextItem]("repair", blog.TypeText, old)
		exists := old != nil && !(have.Deleted && err == nil)
		item, text := blog.NewPostItem(post)
		p.Condition = fmt.Sprintf("from c where c.revision = %d AND NOT IS_DEFINED(c.deleted)", post.Revision)
		p.Set("/content", item.Content)
		p.Set("/readingMinutes", item.ReadingMinutes)
		p.Set("/textDigest", item.TextDigest)
		b.Patch(d.ID, p)
		stored.WriteText(&b, text, exists)
	case d.Want == textInPost:
		raw, err := stored.Read(ctx, "repair", t.posts, stored.Key(d.ID, blog.TextID))
		if raw == nil || err != nil {
			return err
		}
		text, ok, err := blog.Decode[blog.TextItem]("repair", blog.TypeText, raw)
		if !ok || err != nil || textOfPost+text.Digest != d.Have {
			return err // compare again
		}
		p.Condition = fmt.Sprintf("from c where c.textDigest = '%s' AND NOT IS_DEFINED(c.deleted)", text.Digest)
		p.Set("/content", text.Content)
		p.Set("/textDigest", "")
		b.Patch(d.ID, p)
		b.Delete(blog.TextID)
	case d.Want != absent:
		return &blog.Error{Code: blog.Conflict, Op: "repair",
			Message: fmt.Sprintf("the text of post %s is lost: only its author can write it again", d.ID)}
	default:
		var err error
		if orphan, err = t.posts.Read(ctx, stored.Key(d.ID, blog.TextID)); orphan.Value == nil || err != nil {
			return err // deleted meanwhile
		}
		// The condition is on the current post: it may have got the text since it was read.
		p.Condition = "from c where IS_DEFINED(c.deleted) OR NOT IS_DEFINED(c.textDigest) OR c.textDigest = ''"
		p.Set("/textDigest", "")
		b.Patch(d.ID, p)
		b.Delete(blog.TextID)
	}
	r, err := t.posts.Batch(ctx, d.ID, &b)
	if err == nil && r.Failed == 0 && r.Status == http.StatusNotFound { // the post does not exist
		return t.posts.Delete(ctx, stored.Key(d.ID, blog.TextID), orphan.ETag)
	}
	if err == nil {
		err = r.Err()
	}
	return err
}
