package blog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"byline/store/blog/markdown"
)

// Post is a post, or its summary.
type Post struct {
	ID string `json:"id"`
	Byline
	Title          string `json:"title"`   // see PostTexts
	Content        string `json:"content"` // if Truncated, the excerpt
	SEOTitle       string `json:"seoTitle,omitempty"`
	SEODescription string `json:"seoDescription,omitempty"`
	CanonicalURL   string `json:"canonicalUrl,omitempty"`
	CoverURL       string `json:"coverUrl,omitempty"` // see CoverImage
	CoverAlt       string `json:"coverAlt,omitempty"`
	CommentCount   int32  `json:"commentCount"`
	LikeCount      int32  `json:"likeCount"`
	CreatedAt      Date   `json:"creationDate"`
	UpdatedAt      *Date  `json:"editDate,omitempty"`       // nil: never edited
	Version        int32  `json:"version"`                  // incremented by edits of texts and tags
	Revision       int64  `json:"revision"`                 // incremented by every write; orders the writes of views
	ReadingMinutes int32  `json:"readingMinutes,omitempty"` // of a text that is not at hand; 0: see Minutes

	Tags       []string `json:"tags,omitempty"` // normalized, in the author's order; changed by edits
	FormerTags []string `json:"-"`              // see Retag; summaries have none
	Files      []string `json:"-"`              // ids of all files that the post uses; summaries have none

	Truncated bool `json:"-"` // Content is shorter than the post's: a summary, or a long post without its TextItem

	Tombstone bool `json:"-"` // deleted; only DecodePostOrTombstone returns tombstones

	IsDraft    bool `json:"-"` // not a post yet: a DraftItem
	Publishing bool `json:"-"` // of a draft: its publication has begun, so that it is never edited again
	WasDraft   bool `json:"-"` // published from a draft, which a crash may have left; summaries have it not

	Derived *Derived `json:"-"` // nil: what is computed from the texts is not cached
}

// PostTexts are the texts of posts.
var PostTexts = []PostText{
	{Field: "Title", Name: "title", Max: MaxTitle, Of: func(p *Post) *string { return &p.Title }},
	{Field: "SEOTitle", Name: "seoTitle", Max: MaxTitle, Optional: true,
		Of: func(p *Post) *string { return &p.SEOTitle }},
	{Field: "SEODescription", Name: "seoDescription", Max: MaxSEODescription, Optional: true,
		Of: func(p *Post) *string { return &p.SEODescription }},
	{Field: "CanonicalURL", Name: "canonicalUrl", Max: MaxCanonicalURL, Optional: true, URL: true,
		Of: func(p *Post) *string { return &p.CanonicalURL }},
	{Field: "CoverURL", Name: "coverUrl", Input: "coverImage.url", Max: MaxCoverURL, Optional: true, Picture: true,
		Of: func(p *Post) *string { return &p.CoverURL }},
	{Field: "CoverAlt", Name: "coverAlt", Input: "coverImage.alt", Max: MaxCoverAlt, Optional: true,
		Of: func(p *Post) *string { return &p.CoverAlt }},
}

// PostItem is a post in the posts container.
type PostItem struct {
	Envelope
	PostID string `json:"postId"` // == id
	Post
	FormerTags  []string `json:"formerTags,omitempty"`
	Files       []string `json:"files,omitempty"`      // ids of the files whose paths the text has
	FilesOf     string   `json:"filesOf,omitempty"`    // the author's id, if the post uses files
	TextDigest  string   `json:"textDigest,omitempty"` // of the TextItem; "": no TextItem, Content is complete
	InputDigest string   `json:"inputDigest,omitempty"`
	WasDraft    bool     `json:"wasDraft,omitempty"`
}

func (i *PostItem) readProperty(r *fastReader, name string) bool {
	switch name {
	case "id":
		i.ID = r.stringValue()
	case "postId":
		i.PostID = r.stringValue()
	case "content":
		i.Content = r.stringValue()
	case "commentCount":
		i.CommentCount = int32(r.intValue(32))
	case "likeCount":
		i.LikeCount = int32(r.intValue(32))
	case "creationDate":
		i.CreatedAt = r.dateValue()
	case "editDate":
		d := r.dateValue()
		i.UpdatedAt = &d
	case "version":
		i.Version = int32(r.intValue(32))
	case "revision":
		i.Revision = r.intValue(64)
	case "readingMinutes":
		i.ReadingMinutes = int32(r.intValue(32))
	case "tags":
		i.Tags = r.stringsValue()
	case "formerTags":
		i.FormerTags = r.stringsValue()
	case "files":
		i.Files = r.stringsValue()
	case "filesOf":
		i.FilesOf = r.stringValue()
	case "textDigest":
		i.TextDigest = r.stringValue()
	case "inputDigest":
		i.InputDigest = r.stringValue()
	case "wasDraft":
		i.WasDraft = r.boolValue()
	default:
		return readPostText(r, &i.Post, name) || i.Byline.readBylineProperty(r, name) || i.readEnvelope(r, name)
	}
	return true
}

// SummaryItem is the summary of a post in the users and feed containers.
type SummaryItem struct {
	PostItem
	Truncated bool `json:"truncated"`
}

func (i *SummaryItem) readProperty(r *fastReader, name string) bool {
	if name == "truncated" {
		i.Truncated = r.boolValue()
		return true
	}
	return i.PostItem.readProperty(r, name)
}

// Excerpt returns the beginning of what readers see of the content, without markup: at most 280 characters, cut at a
// space near the end or else between characters. show renders the content; the error is its.
func (p *Post) Excerpt(show func(string) (markdown.HTML, error)) (string, error) {
	if p.Truncated {
		return p.Content, nil
	}
	return p.derived().excerpt.of(p.Content, func() (string, error) {
		if len(p.Content) <= ExcerptLength && !hasMarkup(p.Content) {
			return strings.Join(strings.Fields(p.Content), " "), nil
		}
		h, err := show(p.Content)
		return h.Excerpt(ExcerptLength), err
	})
}

// StoredExcerpt is the Excerpt that is stored instead of a long content.
func (p *Post) StoredExcerpt() string {
	text, _ := p.Excerpt(func(content string) (markdown.HTML, error) { // which ends with a context alone
		return markdown.Show(context.Background(), content)
	})
	return text
}

// hasMarkup reports whether readers may see something else than the words of a text. Most short texts are plain
// paragraphs, whose words are quicker to read than to render. Other blocks, and the delimiter row of a table, begin
// with certain characters.
func hasMarkup(text string) bool {
	if strings.ContainsAny(text, "\\`*_[]<&~") {
		return true
	}
	for line := range strings.Lines(text) {
		if strings.IndexByte(" \t\r#>+-=|:0123456789", line[0]) >= 0 {
			return true
		}
	}
	return false
}

// Minutes returns how long the post takes to read, at least one minute.
func (p *Post) Minutes() int32 {
	if p.ReadingMinutes > 0 || p.Truncated {
		return max(1, p.ReadingMinutes)
	}
	minutes, _ := p.derived().minutes.of(p.Content, func() (int32, error) {
		if isShort(p.Content) {
			return 1, nil // however dense
		}
		return int32(markdown.ReadingMinutes(p.Content)), nil
	})
	return minutes
}

// isShort reports whether the summary of a post has the whole content.
func isShort(content string) bool {
	return len(content) <= ExcerptLength || utf8.RuneCountInString(content) <= ExcerptLength
}

// Summary returns the summary of the post, which must not be a Tombstone, as an item of its author's partition.
func (p *Post) Summary() SummaryItem {
	item := SummaryItem{PostItem: PostItem{Envelope: Envelope{Type: TypePost}, PostID: p.ID, Post: *p}}
	item.ReadingMinutes = 0
	if item.Truncated = p.Truncated || !isShort(p.Content); item.Truncated {
		item.Content, item.ReadingMinutes = p.StoredExcerpt(), p.Minutes()
	}
	return item
}

// DecodePost decodes a post. It returns nil for a tombstone. A long post is Truncated.
func DecodePost(op string, raw []byte) (*Post, error) {
	item, ok, err := Decode[PostItem](op, TypePost, raw)
	if !ok {
		return nil, err
	}
	return item.WithoutText(), nil
}

// WithoutText returns the post, Truncated if it is a long one.
func (i *PostItem) WithoutText() *Post {
	p := i.Post
	p.Truncated, p.FormerTags, p.WasDraft, p.Derived = i.TextDigest != "", i.FormerTags, i.WasDraft, &Derived{}
	p.Files = i.UsedFiles()
	return &p
}

// UseFiles sets the files whose paths the text has.
func (i *PostItem) UseFiles(files []string) {
	i.Files, i.FilesOf = files, ""
	if len(i.UsedFiles()) > 0 {
		i.FilesOf = i.UserID
	}
}

// UsedFiles returns the ids of all files that the post uses.
func (i *PostItem) UsedFiles() []string {
	if cover, ok := CoverFile(i.UserID, i.CoverURL); ok {
		return append(slices.Clip(i.Files), string(cover))
	}
	return i.Files
}

// DecodePostOrTombstone is DecodePost for posts that may be deleted. A post without a date, which no list has a place
// for, is malformed.
func DecodePostOrTombstone(op string, raw []byte) (*Post, error) {
	item, live, err := Decode[PostItem](op, TypePost, raw)
	if live && err == nil && item.CreatedAt == "" {
		err = Malformed(op, TypePost, errors.New("no creationDate"))
	}
	item.Post.Tombstone, item.Post.Truncated = item.Deleted, item.TextDigest != "" && !item.Deleted
	item.Post.FormerTags, item.Post.Files = item.FormerTags, item.UsedFiles()
	return &item.Post, err
}

// Summaries is the format of a list of posts.
var Summaries = Format[Post]{Fields: summaryFields, Besides: (*Post).DerivedBytes, fast: readSummary,
	into:      summaryTarget,
	tombstone: func(p *Post) bool { return p.Title == "" && p.Version == 0 }}

var summaryProperties = postTextFields + ", c.content, c.truncated, c.commentCount, c.likeCount, c.creationDate, " +
	"c.editDate, c.version, c.revision, c.readingMinutes, c.tags"

// summaryFields are the fields of a summary in a list.
var summaryFields = "c.id, " + BylineFields + summaryProperties

func readSummary(r *fastReader, p *Post) {
	p.ID = r.text("id")
	readByline(r, &p.Byline)
	readPostTexts(r, p)
	p.Content, p.Truncated = r.text("content"), r.flag("truncated")
	p.CommentCount, p.LikeCount = int32(r.number("commentCount", 32)), int32(r.number("likeCount", 32))
	p.CreatedAt, p.UpdatedAt = r.date("creationDate"), r.dateOrNil("editDate")
	p.Version, p.Revision = int32(r.number("version", 32)), r.number("revision", 64)
	p.ReadingMinutes = int32(r.numberOrZero("readingMinutes", 32))
	p.Tags, p.Derived = r.stringsOrNil("tags"), &Derived{}
}

// summaryTarget returns what a summary is decoded into.
func summaryTarget(p *Post) any {
	return &struct {
		*Post
		Truncated *bool `json:"truncated"`
	}{p, &p.Truncated}
}
