package blog

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"byline/internal/itemjson"
)

// Authored has the properties that all items of the posts container share.
type Authored struct {
	Envelope
	ID     string `json:"id"`
	PostID string `json:"postId"`
	Byline
	ETag    string `json:"_etag"`
	Written int64  `json:"_ts"` // seconds
}

func (a *Authored) readProperty(r *fastReader, name string) bool {
	switch name {
	case "id":
		a.ID = r.stringValue()
	case "postId":
		a.PostID = r.stringValue()
	case "_etag":
		a.ETag = r.stringValue()
	case "_ts":
		a.Written = r.intValue(64)
	default:
		return a.Byline.readBylineProperty(r, name) || a.readEnvelope(r, name)
	}
	return true
}

// Lenient is the option for items that other programs may have written: only the decoded fields must be
// valid.
var Lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// AnyItem has the properties that all items share.
type AnyItem struct{ Envelope }

func (e *AnyItem) readProperty(r *fastReader, name string) bool { return e.readEnvelope(r, name) }

// IfUser is the condition of a patch that an item is a user who is not deleted.
const IfUser = "from c where c.type = '" + TypeUser + "' AND NOT IS_DEFINED(c.deleted)"

// The values of an item's type property.
const (
	TypeUser     = "user"
	TypeUsername = "username"
	TypePost     = "post"
	TypeComment  = "comment"
	TypeLike     = "like"
	TypeText     = "text"
	TypeDraft    = "draft"

	TypeFollower  = "follower"  // in the partition of the author
	TypeFollowing = "following" // in the partition of the follower

	TypeBookmark = "bookmark" // in the partition of the reader, as TypeLiked
	TypeLiked    = "liked"    // the view of a like

	// Of tombstones, so that no list of posts or comments meets them. Decoded, a tombstone has the type of what was
	// deleted, and is Deleted.
	TypeDeletedPost    = deletedPrefix + "Post"
	TypeDeletedComment = deletedPrefix + "Comment"
	TypeDeletedText    = deletedPrefix + "Text"

	TypeDeletedFollower  = deletedPrefix + "Follower"
	TypeDeletedFollowing = deletedPrefix + "Following"

	deletedPrefix = "deleted"
)

// deletedTypes has the types of tombstones by the types of what was deleted.
var deletedTypes = map[string]string{TypePost: TypeDeletedPost, TypeComment: TypeDeletedComment,
	TypeText: TypeDeletedText, TypeFollower: TypeDeletedFollower, TypeFollowing: TypeDeletedFollowing}

// TombstoneType returns the type of the tombstone of an item: typ itself for types whose tombstones have no other.
func TombstoneType(typ string) string { return cmp.Or(deletedTypes[typ], typ) }

// Envelope has the properties that every item has besides those of its type.
type Envelope struct {
	Type    string `json:"type"`
	Deleted bool   `json:"deleted,omitempty"` // a tombstone, which readers do not see
	TTL     int    `json:"ttl,omitempty"`     // seconds; of a tombstone or a released username
}

// TombstoneTTL is the TTL of a tombstone in seconds: the longest that a reader of the change feed may be
// stopped without missing a delete.
const TombstoneTTL = 30 * 24 * 60 * 60

// ViewTombstoneTTL is the TTL of the tombstone of a summary in seconds: longer than an instance may be paused between
// its read of a post and its write of the summary. The tombstone of the post itself guards against anything later.
const ViewTombstoneTTL = 24 * 60 * 60

func (e Envelope) envelopeOf() Envelope { return e }

// normalize gives a tombstone the type of what was deleted.
func (e *Envelope) normalize() {
	if !e.Deleted || !strings.HasPrefix(e.Type, deletedPrefix) {
		return
	}
	for typ, deleted := range deletedTypes {
		if e.Type == deleted {
			e.Type = typ
		}
	}
}

func (e *Envelope) readEnvelope(r *fastReader, name string) bool {
	switch name {
	case "type":
		e.Type = r.stringValue()
	case "deleted":
		e.Deleted = r.boolValue()
	case "ttl":
		e.TTL = int(r.intValue(strconv.IntSize))
	default:
		return false
	}
	return true
}

// ErrMalformed is the error of an item without the form of its type, which another program must have
// written.
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

// Unmarshal decodes an item, by the fast path if possible.
func Unmarshal[T any](raw []byte, item *T, o ...jsonv2.Options) error {
	err := unmarshal(raw, item, o...)
	if e, ok := any(item).(interface{ normalize() }); ok {
		e.normalize()
	}
	return err
}

func unmarshal[T any](raw []byte, item *T, o ...jsonv2.Options) error {
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

// Encode encodes a new item, or the tombstone of one. It cannot fail: items consist of strings, numbers and booleans.
func Encode(item interface{ envelopeOf() Envelope }) []byte {
	b, err := itemjson.Encode(item)
	if err != nil {
		panic(err)
	}
	return b
}

// Change is an item of the change feed, without its text.
type Change struct {
	Authored
	CreatedAt Date  `json:"creationDate"`
	UpdatedAt Date  `json:"editDate"` // "" if never edited
	Revision  int64 `json:"revision"` // of posts; 0 for other items
}

func (c *Change) readProperty(r *fastReader, name string) bool {
	switch name {
	case "creationDate":
		c.CreatedAt = r.dateValue()
	case "editDate":
		c.UpdatedAt = r.dateValue()
	case "revision":
		c.Revision = r.intValue(64)
	default:
		return c.Authored.readProperty(r, name)
	}
	return true
}

// The containers of the article's V3, and the one for the leases of the change feed.
const (
	UsersContainer  = "users"
	PostsContainer  = "posts"
	FeedContainer   = "feed"
	LeasesContainer = "leases"
	SearchContainer = "search"
)
