package globalid

import (
	"encoding/base64"
	"errors"
	"strings"

	"byline/store/blog"
)

// Node is any object with a global id: *names.User, *blog.Post, *blog.Comment,
// *blog.Like or *store.Tag, which have no marker method, so the interface is empty.
type Node any

// Kind is a type of the schema that implements Node.
type Kind string

// The kinds.
const (
	User    Kind = "User"    // parts: user
	Post    Kind = "Post"    // parts: post
	Comment Kind = "Comment" // parts: post, comment
	Like    Kind = "Like"    // parts: post, user
	Tag     Kind = "Tag"     // parts: key
)

const (
	maxPart   = 128
	maxText   = 512 // longer than any id can be
	separator = "/"
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
	b := append(make([]byte, 0, maxText), id.Kind...)
	if id.Kind.nested() {
		b = append(append(b, separator...), id.Parent...)
	}
	return encoding.AppendEncode(dst, append(append(b, separator...), id.Key...))
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
		return ID{}, nil
	}
	// The decoder ignores line ends.
	if len(s) > maxText || strings.ContainsAny(s, "\r\n") {
		return ID{}, errMalformed
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return ID{}, errMalformed
	}
	parts := strings.Split(string(b), separator)
	id := ID{Kind: Kind(parts[0])}
	switch {
	case (id.Kind == User || id.Kind == Post || id.Kind == Tag) && len(parts) == 2:
		id.Key = parts[1]
	case id.Kind.nested() && len(parts) == 3:
		id.Parent, id.Key = parts[1], parts[2]
	default:
		return ID{}, errMalformed
	}
	if id.Kind == Tag {
		if name, ok := blog.TagKey(id.Key); !ok || name != id.Key {
			return ID{}, errMalformed
		}
		return id, nil
	}
	for _, part := range parts[1:] {
		if !validPart(part) {
			return ID{}, errMalformed
		}
	}
	return id, nil
}

// alphabet has the characters of the store's ids. It has no ":", which only the ids of internal
// items contain.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func validPart(s string) bool {
	return s != "" && len(s) <= maxPart && strings.Trim(s, alphabet) == ""
}
