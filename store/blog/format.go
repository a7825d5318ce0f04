package blog

import (
	"bytes"
	"errors"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Format defines the fields that a list selects, and how a page of them is decoded.
type Format[T any] struct {
	Fields string // the SELECT clause
	fast   func(*fastReader, *T)
	into   func(*T) any // the target of the fallback; nil: the item itself
}

// The formats of the lists.
var (
	Summaries = Format[Post]{summaryFields, readSummary, summaryTarget}
	Comments  = Format[Comment]{commentFields, readComment, nil}
	Likes     = Format[Like]{likeFields, readLike, nil}
)

// Decode decodes the items of a query response, each of which starts as a copy of blank. It may leave item
// number most undecoded, and omit all after it.
func (f Format[T]) Decode(body []byte, blank T, most int) (items []T, err error) {
	items, ok := fastItems(body, blank, f.fast)
	if !ok {
		items, err = f.decodeAny(body, blank, most)
	}
	return items, err
}

// decodeAny is Decode for any JSON, the fallback of the fast path.
func (f Format[T]) decodeAny(body []byte, blank T, most int) (items []T, err error) {
	err = eachItem(body, func(d *jsontext.Decoder) error {
		if items = append(items, blank); len(items) == most {
			return errEnough
		}
		item := &items[len(items)-1]
		if f.into != nil {
			return jsonv2.UnmarshalDecode(d, f.into(item))
		}
		return jsonv2.UnmarshalDecode(d, item)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return items, err
}

// errEnough ends eachItem early.
var errEnough = errors.New("enough")

var errNotPage = errors.New("not a page of a list")

// eachItem calls f with a decoder at each item of a page; f must consume the item.
func eachItem(body []byte, f func(*jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errNotPage, err)
	}
	found := false
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "Documents" {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
			return errors.Join(errNotPage, err)
		}
		found = true
		for d.PeekKind() == '{' {
			if err := f(d); err != nil {
				return err
			}
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != ']' {
			return errors.Join(errNotPage, err)
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' || !found {
		return errors.Join(errNotPage, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Join(errNotPage, err)
	}
	return nil
}

// likeFields are the fields of a like in a list.
const likeFields = "c.userId, c.userUsername, c.creationDate"

func readLike(p *fastReader, l *Like) {
	l.UserID, l.Username, l.CreatedAt = p.text("userId"), p.text("userUsername"), p.date("creationDate")
}

// summaryFields are the fields of a summary in a list.
const summaryFields = "c.id, c.userId, c.userUsername, c.title, c.content, c.truncated, c.commentCount, c.likeCount, c.creationDate, c.editDate, c.version, c.revision"

func readSummary(r *fastReader, p *Post) {
	p.ID, p.AuthorID, p.AuthorUsername = r.text("id"), r.text("userId"), r.text("userUsername")
	p.Title, p.Content, p.Truncated = r.text("title"), r.text("content"), r.flag("truncated")
	p.CommentCount, p.LikeCount = int32(r.number("commentCount", 32)), int32(r.number("likeCount", 32))
	p.CreatedAt, p.UpdatedAt = r.date("creationDate"), r.dateOrNil("editDate")
	p.Version, p.Revision = int32(r.number("version", 32)), r.number("revision", 64)
}

// summaryTarget returns what a summary is decoded into.
func summaryTarget(p *Post) any {
	return &struct {
		*Post
		Truncated *bool `json:"truncated"`
	}{p, &p.Truncated}
}

// commentFields are the fields of a comment in a list.
const commentFields = "c.id, c.userId, c.userUsername, c.content, c.creationDate, c.editDate"

func readComment(p *fastReader, c *Comment) {
	c.ID, c.AuthorID, c.AuthorUsername = p.text("id"), p.text("userId"), p.text("userUsername")
	c.Content, c.CreatedAt, c.UpdatedAt = p.text("content"), p.date("creationDate"), p.dateOrNil("editDate")
}

// MaxPage is the largest page of any list.
const MaxPage = 100
