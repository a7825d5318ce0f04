package globalid

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"byline/store/blog"
)

// Node is any object with a global id: *names.User, *blog.Post, *blog.Comment,
// *blog.Like or *store.Tag, which have no marker method, so the interface is empty.
type Node any

// Kind is a type of the schema that implements Node.
type Kind string

// The kinds.
const (
	User    Kind = "User"
	Post    Kind = "Post"
	Comment Kind = "Comment" // below a post
	Like    Kind = "Like"    // below a post; its key is the user
	Tag     Kind = "Tag"
)

// kinds are the kinds by their numbers in ids. A new one is appended.
var kinds = []Kind{User, Post, Comment, Like, Tag}

const (
	maxPart = 128
	maxText = 512 // longer than any id can be
)

// encoding refuses trailing bits in the last character, so that every id has one text only.
var encoding = base64.RawURLEncoding.Strict()

// ID identifies an object. Parent is the id of the post for comments and likes and
// "" for others; a like's Key is the id of the user, a tag's is its key.
type ID struct {
	Kind   Kind
	Parent string
	Key    string
}

// String returns the opaque id that clients see.
func (id ID) String() string { return string(id.Append(nil)) }

// Append appends the opaque id to dst.
func (id ID) Append(dst []byte) []byte {
	var space [maxText]byte
	kind := byte(slices.Index(kinds, id.Kind))
	b, parent := space[:1], asText
	if id.Kind.nested() {
		if b, parent = appendPart(b, id.Parent); parent == asText {
			b = slices.Insert(b, 1, byte(len(id.Parent)))
		}
	}
	b, key := appendPart(b, id.Key)
	b[0] = kind<<4 | byte(parent)<<2 | byte(key)
	return encoding.AppendEncode(dst, b)
}

// form is how a part of an id is encoded: in the shortest form that it has.
type form byte

const (
	asText   form = iota // as it is
	asPostID             // 10 bytes: see blog.PostIDBytes
	asHex                // 16 bytes, as 32 lower-case hexadecimal digits
	asUUID               // 16 bytes
)

// size returns how many bytes the form takes; 0 if that depends on the part.
func (f form) size() int { return [...]int{0, 10, 16, 16}[f] }

// appendPart appends a part of an id.
func appendPart(b []byte, part string) ([]byte, form) {
	if short, ok := blog.PostIDBytes(part); ok {
		return append(b, short[:]...), asPostID
	}
	if len(part) == 32 && strings.Trim(part, "0123456789abcdef") == "" {
		b, _ = hex.AppendDecode(b, []byte(part))
		return b, asHex
	}
	if u, err := uuid.Parse(part); err == nil && u.String() == part {
		return append(b, u[:]...), asUUID
	}
	return append(b, part...), asText
}

// part returns the part of an id that has been encoded in a form.
func (f form) part(b []byte) string {
	switch f {
	case asPostID:
		return blog.PostIDOf([10]byte(b))
	case asHex:
		return hex.EncodeToString(b)
	case asUUID:
		return uuid.UUID(b).String()
	}
	return string(b)
}

// OfUser returns the id of a user.
func OfUser(id string) ID { return ID{Kind: User, Key: id} }

// OfPost returns the id of a post.
func OfPost(id string) ID { return ID{Kind: Post, Key: id} }

// OfComment returns the id of a comment.
func OfComment(postID, id string) ID { return ID{Kind: Comment, Parent: postID, Key: id} }

// OfLike returns the id of a user's like.
func OfLike(postID, userID string) ID { return ID{Kind: Like, Parent: postID, Key: userID} }

// OfTag returns the id of a tag, given its key.
func OfTag(key string) ID { return ID{Kind: Tag, Key: key} }

// nested reports whether objects of the kind are in the partition of a post.
func (k Kind) nested() bool { return k == Comment || k == Like }

var errMalformed = errors.New("not a global id")

// Parse parses an id that String returned. An integer, which the specification allows for an ID, is the zero ID, which
// no object has. It refuses all other texts.
func Parse(s string) (ID, error) {
	if digits := strings.TrimPrefix(s, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		return ID{}, nil // ids begin with a letter, as their first bit is 0
	}
	if len(s) > maxText {
		return ID{}, errMalformed
	}
	b, err := encoding.DecodeString(s)
	if err != nil || len(b) < 2 {
		return ID{}, errMalformed
	}
	id, ok := decode(b[0], b[1:])
	if !ok || !id.valid() || id.String() != s { // a part in another form than its shortest
		return ID{}, errMalformed
	}
	return id, nil
}

// decode decodes an id, given its first byte and the rest.
func decode(first byte, b []byte) (id ID, ok bool) {
	n := int(first >> 4)
	if n >= len(kinds) {
		return id, false
	}
	id.Kind = kinds[n]
	parent, key := form(first>>2&3), form(first&3)
	if id.Kind.nested() {
		size := parent.size()
		if parent == asText {
			size, b = int(b[0]), b[1:]
		}
		if len(b) < size {
			return id, false
		}
		id.Parent, b = parent.part(b[:size]), b[size:]
	}
	if key != asText && len(b) != key.size() {
		return id, false
	}
	id.Key = key.part(b)
	return id, true
}

// valid reports whether an object can have the id.
func (id ID) valid() bool {
	if id.Kind == Tag {
		name, ok := blog.TagKey(id.Key)
		return ok && name == id.Key
	}
	return validPart(id.Key) && (validPart(id.Parent) || !id.Kind.nested())
}

// alphabet has the characters of the store's ids. It has no ":", which only the ids of internal
// items contain.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func validPart(s string) bool {
	return s != "" && len(s) <= maxPart && strings.Trim(s, alphabet) == ""
}
