package blog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Authored is what all items of the posts container share.
type Authored struct {
	Envelope
	ID       string `json:"id"`
	PostID   string `json:"postId"`
	UserID   string `json:"userId"`
	Username string `json:"userUsername"`
	ETag     string `json:"_etag"`
	Written  int64  `json:"_ts"` // seconds
}

func (a *Authored) readProperty(p *fastReader, name string) bool {
	switch name {
	case "id":
		a.ID = p.quoted()
	case "postId":
		a.PostID = p.quoted()
	case "userId":
		a.UserID = p.quoted()
	case "userUsername":
		a.Username = p.quoted()
	case "_etag":
		a.ETag = p.quoted()
	case "_ts":
		a.Written = p.integer(64)
	default:
		return a.readEnvelope(p, name)
	}
	return true
}

// Lenient are the options for items that other programs may have written: only the fields that
// are decoded have to be valid.
var Lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// AnyItem is what all items share.
type AnyItem struct{ Envelope }

func (e *AnyItem) readProperty(p *fastReader, name string) bool { return e.readEnvelope(p, name) }

// The values of an item's type property.
const (
	TypeUser     = "user"
	TypeUsername = "username"
	TypePost     = "post"
	TypeComment  = "comment"
	TypeLike     = "like"
	TypeText     = "text"
)

// Envelope is the properties that every item has beside those of its type.
type Envelope struct {
	Type    string `json:"type"`
	Deleted bool   `json:"deleted,omitempty"` // a tombstone: absent to every reader
	TTL     int    `json:"ttl,omitempty"`     // of a tombstone or a released username: seconds
}

// TombstoneTTL is the TTL of a tombstone in seconds: longer than any reader of the change feed
// may be stopped.
const TombstoneTTL = 30 * 24 * 60 * 60

func (e Envelope) envelopeOf() Envelope { return e }

func (e *Envelope) readEnvelope(p *fastReader, name string) bool {
	switch name {
	case "type":
		e.Type = p.quoted()
	case "deleted":
		e.Deleted = p.truth()
	case "ttl":
		e.TTL = int(p.integer(strconv.IntSize))
	default:
		return false
	}
	return true
}

// ErrMalformed says that an item does not have the form of its type: another program has
// written it.
var ErrMalformed = errors.New("malformed")

// Decode decodes an item of a type. It returns false for an item of another type and for a
// tombstone, and an Error if the item is malformed.
func Decode[T interface{ envelopeOf() Envelope }](op, wantType string, raw []byte) (item T, ok bool, err error) {
	if err := Unmarshal(raw, &item); err != nil {
		return item, false, Malformed(op, wantType, err)
	}
	e := item.envelopeOf()
	return item, e.Type == wantType && !e.Deleted, nil
}

// Unmarshal decodes an item, by the fast path if it can.
func Unmarshal[T any](raw []byte, item *T, o ...jsonv2.Options) error {
	if whole, ok := any(item).(fastReadable); ok {
		if fastItem(raw, whole) {
			return nil
		}
		*item = *new(T)
	}
	return jsonv2.Unmarshal(raw, item, o...)
}

// Malformed returns the Error of a malformed item.
func Malformed(op, kind string, err error) error {
	return &Error{Code: Internal, Op: op, Err: fmt.Errorf("%w %s item: %w", ErrMalformed, kind, err)}
}

// Encode encodes an item. It cannot fail: items consist of strings, numbers and booleans.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Change is an item of the change feed, without its text.
type Change struct {
	Authored
	CreatedAt Date  `json:"creationDate"`
	EditedAt  Date  `json:"editDate"` // "" if never edited
	Revision  int64 `json:"revision"` // of posts
}

func (n *Change) readProperty(p *fastReader, name string) bool {
	switch name {
	case "creationDate":
		n.CreatedAt = p.day()
	case "editDate":
		n.EditedAt = p.day()
	case "revision":
		n.Revision = p.integer(64)
	default:
		return n.Authored.readProperty(p, name)
	}
	return true
}

// The containers of the article's V3, and the one for the leases of the change feed.
const (
	UsersContainer  = "users"
	PostsContainer  = "posts"
	FeedContainer   = "feed"
	LeasesContainer = "leases"
)
