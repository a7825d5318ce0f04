package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/deletion"
	"byline/store/stored"
)

// list is a list of items of one partition, sorted by (creationDate, id).
type list[T any] struct {
	op        string // the operation's name in errors
	container *cosmos.Container
	key       string // property of the partition key
	partition string
	copies    []string // partitions that each hold the whole list; nil: only partition
	typ       string   // "" if the partition has one type
	limit     int      // length of the list from which on there are no items, although More may be true; 0: unlimited
	format    blog.Format[T]
	defaults  T // an item before it is decoded
	position  func(*T) (blog.Date, string)
	since     blog.Date // items created before are hidden; "": no item
	uncached  bool      // pages are not in the item cache

	deletions *deletion.Tracker
	show      func(*T) bool // prepares an item while there are deletions; false if it is hidden

	filter func(context.Context, []T) ([]T, error) // returns the items that the list has; nil: all
}

// page returns one page.
func (l *list[T]) page(ctx context.Context, p Paging) (*Page[*T], error) {
	if p.First < 1 || p.First > blog.MaxPage {
		return nil, invalidFirst(l.op)
	}
	name := l.name(p.Order)
	after, err := decodeCursor(l.op, name, p.After)
	if err != nil {
		return nil, err
	}
	seen, first := 0, p.First
	if after != nil {
		seen = after.Seen
	}
	partition, replica := l.partition, 0
	if n := len(l.copies); n > 0 {
		// Partitions may differ for a moment: read later pages from the partition of the first page.
		if replica = rand.IntN(n); after != nil {
			replica = after.Copy % n
		}
		partition = l.copies[replica]
	}
	if l.limit > 0 {
		first = min(first, l.limit-seen)
	}
	page := &Page[*T]{list: name, seen: seen, copy: replica, after: after, position: l.position}
	if first <= 0 {
		return page, nil
	}

	if l.uncached {
		return page, l.read(ctx, page, partition, p.Order, after, first)
	}
	what := fmt.Sprintf("list %s/%s/%d/%s", l.typ, p.Order, p.First, p.After)
	return cached(ctx, l.container, partition, what, func(ctx context.Context) (*Page[*T], error) {
		page := *page // the function may run again
		return &page, l.read(ctx, &page, partition, p.Order, after, first)
	})
}

func invalidFirst(op string) error {
	return blog.Invalidf(op, "first", blog.ReasonRange, "must be between 1 and %d", blog.MaxPage)
}

// name identifies the list in the given order, for the digests of its cursors.
func (l *list[T]) name(order Order) string {
	return fmt.Sprintf("%s/%s/%s/%s", l.container.Name(), l.partition, l.typ, order)
}

// cursor returns the cursor of an item that was not read from the list, as if it were its first.
func (l *list[T]) cursor(item *T, order Order) string {
	date, id := l.position(item)
	return string(cursor{Date: date, ID: id, Seen: 1}.appendTo(nil, l.name(order)))
}

// read reads one page by keyset pagination: one query of one partition, served by the composite index of
// the sort. It takes a second request only if Cosmos DB ends a page early.
func (l *list[T]) read(
	ctx context.Context, to *Page[*T], partition string, order Order, after *cursor, first int,
) error {
	query := l.query(partition, order, after)
	query.PageSize = int32(first + 1) // the extra item tells whether more follow
	rounds := 0
	for body, err := range l.container.QueryBodies(ctx, query) {
		if err != nil {
			return stored.Error(l.op, err)
		}
		if rounds++; rounds > maxRounds && l.filter != nil {
			if len(to.Items) == 0 {
				return manyDeletions(l.op)
			}
			to.More = true
			return nil
		}
		room := first - len(to.Items)
		limit, hides := room+1, l.deletions.Any() || l.filter != nil
		if hides {
			limit = blog.MaxPage + 2 // all of them, as some may be hidden
		}
		items, err := l.format.Decode(body, l.defaults, limit)
		if err != nil {
			return blog.Malformed(l.op, "listed", err)
		}
		if hides {
			items = l.visible(items)
		}
		if l.filter != nil {
			if items, err = l.filter(ctx, items); err != nil {
				return err
			}
		}
		itemcache.AddSize(ctx, weight(items, len(body), l.format.Besides))
		to.Items = slices.Grow(to.Items, len(items))
		for i := range items[:min(len(items), room)] {
			to.Items = append(to.Items, &items[i])
		}
		if len(items) > room {
			to.More = true
			return nil
		}
	}
	return nil
}

// visible prepares items for readers, and returns those that are not hidden.
func (l *list[T]) visible(items []T) []T {
	n := 0
	for i := range items {
		if l.show(&items[i]) {
			items[n] = items[i]
			n++
		}
	}
	return items[:n]
}

// weight returns the memory of a page besides its text, in bytes: the items, the pointers to them, what each holds
// besides, and up to an eighth by which Go rounds large allocations up.
func weight[T any](items []T, text int, besides func(*T) int) int {
	took := len(items) * int(reflect.TypeFor[T]().Size()+reflect.TypeFor[*T]().Size())
	for i := range items {
		if besides != nil {
			took += besides(&items[i])
		}
	}
	return took + (took+text)/8
}

// query selects the items after the cursor. It names the partition although the request does: an index covers
// a physical partition, and the service may seek in it only by what WHERE and ORDER BY name. The index seeks the
// first bound on creationDate; the second condition orders items of the same millisecond.
func (l *list[T]) query(partition string, order Order, after *cursor) cosmos.Query {
	comparison, direction := "<", "DESC"
	if order == OldestFirst {
		comparison, direction = ">", "ASC"
	}
	q := cosmos.Query{Partition: partition}.With("@partition", partition)
	where, sort := "c."+l.key+" = @partition", "c."+l.key+" "+direction
	if l.typ != "" {
		where += " AND c.type = @type"
		sort += ", c.type " + direction
		q = q.With("@type", l.typ)
	}
	if l.since != "" {
		where += " AND c.creationDate >= @since"
		q = q.With("@since", l.since)
	}
	if after != nil {
		where += fmt.Sprintf(" AND c.creationDate %[1]s= @date AND (c.creationDate %[1]s @date OR c.id %[1]s @id)",
			comparison)
		q = q.With("@date", after.Date).With("@id", after.ID)
	}
	q.Text = fmt.Sprintf("SELECT %s FROM c WHERE %s ORDER BY %s, c.creationDate %s, c.id %s", l.format.Fields, where,
		sort, direction, direction)
	return q
}

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
	More  bool // whether more follow; a list that leaves out deleted items may end earlier

	list     string // the list's name
	seen     int    // items before the page
	ranks    []int  // of the items in the list, from 1; nil: they follow those before the page
	copy     int    // index of the feed partition that the page was read from
	after    *cursor
	position func(T) (blog.Date, string)
	reached  *cursor // where the next page begins if this one has no items, and More is true; nil: it always has some
}

// End returns the cursor after which the next page begins, "" for an empty page without one.
func (p *Page[T]) End() string {
	switch {
	case len(p.Items) > 0:
		return p.Cursor(len(p.Items) - 1)
	case p.reached != nil:
		return string(p.reached.appendTo(nil, p.list))
	}
	return ""
}

// cut removes the items after the first ones, and sets More if there are any.
func (p *Page[T]) cut(first int) {
	if len(p.Items) > first {
		p.Items, p.More = p.Items[:first], true
	}
}

// entry returns the place of an item in the list.
func (p *Page[T]) entry(item T) blog.Entry {
	date, id := p.position(item)
	return blog.Entry{CreatedAt: date, ID: id}
}

// Cursor returns the cursor of Items[i].
func (p *Page[T]) Cursor(i int) string { return string(p.AppendCursor(nil, i)) }

// AppendCursor appends the cursor of Items[i].
func (p *Page[T]) AppendCursor(dst []byte, i int) []byte {
	date, id := p.position(p.Items[i])
	seen := p.seen + i + 1
	if p.ranks != nil {
		seen = p.ranks[i]
	}
	return cursor{Date: date, ID: id, Seen: seen, Copy: p.copy}.appendTo(dst, p.list)
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
