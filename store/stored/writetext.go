package stored

import (
	"byline/store/blog"
	"byline/store/cosmos"
)

// WriteText adds the write of a text to a batch. If a text exists, which may be malformed, its properties are patched
// but for its keys, so that those of later versions stay; this fails with 404 or 412 if it does not exist.
func WriteText(b *cosmos.Batch, text *blog.TextItem, exists bool) {
	if !exists {
		b.Upsert(blog.Encode(text))
		return
	}
	p := cosmos.Patch{Condition: "from c where NOT IS_DEFINED(c.deleted)"}
	p.Set("/type", text.Type)
	p.Set("/userId", text.AuthorID)
	p.Set("/content", text.Content)
	p.Set("/textDigest", text.Digest)
	b.Patch(blog.TextID, p)
}

// SetText sets a property that differs from text: it removes the property if text is "".
func SetText(p *cosmos.Patch, path, text string) {
	if text == "" {
		p.Remove(path)
	} else {
		p.Set(path, text)
	}
}
