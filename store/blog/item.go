package blog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// authored is what every item of the posts container says of its author.
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

// lenient is for what is read of items that others may have written: what is wrong
// elsewhere in them is no matter.
var Lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// ofAnyType is what every item has.
type AnyItem struct{ Envelope }

func (e *AnyItem) readProperty(p *fastReader, name string) bool { return e.readEnvelope(p, name) }

// The values of an item's type property.
const (
	TypeUser     = "user"
	TypeUsername = "username"
	TypePost     = "post"
	TypeComment  = "comment"
	TypeLike     = "like"
)

// envelope is what every item of the blog has beside its own properties.
type Envelope struct {
	Type    string `json:"type"`
	Deleted bool   `json:"deleted,omitempty"` // a tombstone: absent to every reader
	TTL     int    `json:"ttl,omitempty"`     // of a tombstone or a released username: seconds until it goes
}

// tombstoneLife is how long a tombstone stays, in seconds: longer than anything
// that follows the change feed may stand still.
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

// errMalformed says that an item is not what its type has to be: somebody else has
// written it.
var ErrMalformed = errors.New("malformed")

// decode reads an item of the given type. It reports false for an item of another
// type and for a tombstone, and an Error if the item is malformed.
func Decode[T interface{ envelopeOf() Envelope }](op, wantType string, raw []byte) (item T, ok bool, err error) {
	if err := Unmarshal(raw, &item); err != nil {
		return item, false, Malformed(op, wantType, err)
	}
	e := item.envelopeOf()
	return item, e.Type == wantType && !e.Deleted, nil
}

// unmarshal reads an item.
func Unmarshal[T any](raw []byte, item *T, o ...jsonv2.Options) error {
	if whole, ok := any(item).(fastReadable); ok {
		if fastItem(raw, whole) {
			return nil
		}
		*item = *new(T)
	}
	return jsonv2.Unmarshal(raw, item, o...)
}

func Malformed(op, kind string, err error) error {
	return &Error{Code: Internal, Op: op, Err: fmt.Errorf("%w %s item: %w", ErrMalformed, kind, err)}
}

// encode writes an item. Items are made of texts, numbers and flags: it cannot fail.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// news is what an item of the change feed says of itself.
type Change struct {
	Authored
	CreatedAt Date  `json:"creationDate"`
	EditedAt  Date  `json:"editDate"` // of those that were edited
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

// The containers of the article's V3, and the one that the change feed needs.
const (
	UsersContainer  = "users"
	PostsContainer  = "posts"
	FeedContainer   = "feed"
	LeasesContainer = "leases"
)
