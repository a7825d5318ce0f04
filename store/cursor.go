package store

import (
	"encoding/base64"
	"strconv"
	"strings"

	"byline/store/blog"
)

// Order is the order of a list. The names are GraphQL's.
type Order string

// The orders.
const (
	NewestFirst Order = "NEWEST_FIRST"
	OldestFirst Order = "OLDEST_FIRST"
)

// Paging selects a page of a list.
type Paging struct {
	First int    // 1 to 100
	After string // a cursor of the same list in the same order, or ""
	Order Order  // NewestFirst if empty; only Comments supports both
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T
	More  bool // whether more follow; exact

	list     string // the list's name
	seen     int    // items before the page
	copy     int    // index of the feed partition that the page was read from
	after    *cursor
	position func(T) (blog.Date, string)
}

// Cursor returns the cursor of Items[i].
func (p *Page[T]) Cursor(i int) string { return string(p.AppendCursor(nil, i)) }

// AppendCursor appends the cursor of Items[i].
func (p *Page[T]) AppendCursor(dst []byte, i int) []byte {
	date, id := p.position(p.Items[i])
	return cursor{Date: date, ID: id, Seen: p.seen + i + 1, Copy: p.copy}.appendTo(dst, p.list)
}

// cursor is a GraphQL connection cursor: the sort key of an item, the number of items up to
// it, and the index of the feed partition.
type cursor struct {
	Date blog.Date
	ID   string
	Seen int
	Copy int
}

const cursorVersion = "1"

// FeedPosition returns how many posts are before a page of the feed, given the cursor of the page before; 0 for an
// invalid cursor.
func FeedPosition(after string) int {
	raw, _ := base64.RawURLEncoding.DecodeString(after)
	if parts := strings.Split(string(raw), "|"); len(parts) > 2 {
		seen, _ := strconv.Atoi(parts[2])
		return max(0, seen)
	}
	return 0
}

// appendTo appends the cursor as opaque text, with a digest of the cursor and the list, so that changed
// cursors and those of other lists are rejected.
func (c cursor) appendTo(dst []byte, list string) []byte {
	seen := strconv.Itoa(c.Seen)
	sum := blog.Digest(list, seen, string(c.Date), c.ID)
	b := append(make([]byte, 0, 128), cursorVersion+"|"...)
	b = append(base64.RawURLEncoding.AppendEncode(b, sum[:6]), '|')
	b = append(append(b, seen...), '|')
	b = append(append(b, c.Date...), '|')
	b = append(b, c.ID...)
	if c.Copy > 0 {
		b = strconv.AppendInt(append(b, '|'), int64(c.Copy), 10)
	}
	return base64.RawURLEncoding.AppendEncode(dst, b)
}

// decodeCursor decodes a cursor of the list. It returns nil for "", the start of the list.
func decodeCursor(op, list, text string) (*cursor, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(raw), "|")
	if err != nil || len(parts) != 5 && len(parts) != 6 {
		return nil, blog.Invalidf(op, "after", blog.ReasonFormat, "is not a valid cursor for this list")
	}
	c := &cursor{Date: blog.Date(parts[3]), ID: parts[4]}
	c.Seen, err = strconv.Atoi(parts[2])
	if err == nil && len(parts) == 6 {
		c.Copy, err = strconv.Atoi(parts[5])
	}
	if err != nil || c.Seen < 1 || c.Copy < 0 || !blog.ValidDate(parts[3]) || !blog.ValidID(c.ID) ||
		string(c.appendTo(nil, list)) != text {
		return nil, blog.Invalidf(op, "after", blog.ReasonFormat, "is not a valid cursor for this list")
	}
	return c, nil
}
