package blog

import (
	"encoding/hex"
	"encoding/json"
)

// InlineText is the length of the longest text that the post item itself holds, in bytes of JSON. That item
// also has the counters of likes and comments, and a write costs RU by the size of the whole item, but a text of its
// own is another read (TestText_Costs).
const InlineText = 8 << 10

// IsLong reports whether the text of a post is stored as a TextItem.
func IsLong(content string) bool {
	const quotes, escaped = 2, 6 // bytes of the quotes, and at most of an escaped byte
	if escaped*len(content) <= InlineText || len(content) > InlineText {
		return len(content) > InlineText
	}
	quoted, _ := json.Marshal(content) // cannot fail
	return len(quoted) > InlineText+quotes
}

// TextItem is the text of a long post, in the posts container. It is written in one
// transactional batch with the post, whose TextDigest identifies it.
type TextItem struct {
	Envelope
	ID       string `json:"id"` // TextID
	PostID   string `json:"postId"`
	AuthorID string `json:"userId"`
	Content  string `json:"content"`
	Digest   string `json:"textDigest"` // of Content
}

// TextID is the id of a TextItem, in the partition of the post.
const TextID = "text"

func (i *TextItem) readProperty(r *fastReader, name string) bool {
	switch name {
	case "id":
		i.ID = r.stringValue()
	case "postId":
		i.PostID = r.stringValue()
	case "userId":
		i.AuthorID = r.stringValue()
	case "content":
		i.Content = r.stringValue()
	case "textDigest":
		i.Digest = r.stringValue()
	default:
		return i.readEnvelope(r, name)
	}
	return true
}

// NewPostItem returns the items that store a post, which must not be Truncated. text is nil unless the post is
// long.
func NewPostItem(p *Post) (item PostItem, text *TextItem) {
	item = PostItem{Envelope: Envelope{Type: TypePost}, PostID: p.ID, Post: *p, WasDraft: p.WasDraft}
	item.UseFiles(FilesIn(p.Content))
	if IsLong(p.Content) {
		text = NewText(p.ID, p.UserID, p.Content)
		item.Content, item.ReadingMinutes, item.TextDigest = p.StoredExcerpt(), p.Minutes(), text.Digest
	}
	return item, text
}

// NewText returns the text of a long post.
func NewText(postID, authorID, content string) *TextItem {
	sum := Digest(content)
	return &TextItem{Envelope: Envelope{Type: TypeText}, ID: TextID, PostID: postID, AuthorID: authorID,
		Content: content, Digest: hex.EncodeToString(sum[:8])}
}

// Whole returns the post with its text. It returns false, and the Truncated post, if text is
// missing or of another version of the post. text may be nil.
func (i *PostItem) Whole(text []byte) (p *Post, ok bool) {
	p = &i.Post
	p.Derived = &Derived{}
	if i.TextDigest == "" {
		return p, true
	}
	t, ok, err := Decode[TextItem]("read text of post", TypeText, text)
	if p.Truncated = err != nil || !ok || t.Digest != i.TextDigest; !p.Truncated {
		p.Content = t.Content
	}
	return p, !p.Truncated
}
