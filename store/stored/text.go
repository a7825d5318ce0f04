package stored

import (
	"context"

	"byline/store/blog"
	"byline/store/cosmos"
)

// TextPlace is what is in the place of a text: nothing, unless one of the fields is set.
type TextPlace struct {
	Text      bool        // a text, maybe of a later version
	Tombstone cosmos.ETag // of the tombstone of a text
}

// ReadTextPlace reads what is in the place of the text of a post.
func ReadTextPlace(
	ctx context.Context, op string, posts *cosmos.Container, postID string,
) (place TextPlace, err error) {
	item, err := posts.Read(ctx, Key(postID, blog.TextID))
	if item.Value == nil || err != nil {
		return place, Error(op, err)
	}
	text, _, err := blog.Decode[blog.TextItem](op, blog.TypeText, item.Value)
	if text.Deleted && err == nil {
		return TextPlace{Tombstone: item.ETag}, nil
	}
	return TextPlace{Text: true}, nil
}

// Write adds the write of a text in its place to a batch. It fails with 404, 409 or 412 if the place has changed. All
// properties of a text are patched but its keys, as it may be malformed: those of later versions stay.
func (place TextPlace) Write(b *cosmos.Batch, text *blog.TextItem) {
	switch {
	case place.Text:
		p := cosmos.Patch{Condition: "from c where NOT IS_DEFINED(c.deleted)"}
		p.Set("/type", text.Type)
		p.Set("/userId", text.AuthorID)
		p.Set("/content", text.Content)
		p.Set("/textDigest", text.Digest)
		b.Patch(blog.TextID, p)
	case place.Tombstone != "":
		b.ReplaceIf(blog.TextID, blog.Encode(text), place.Tombstone)
	default:
		b.Create(blog.Encode(text))
	}
}
