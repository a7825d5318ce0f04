package globalid

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Node is any object with a global id: *blog.User, *blog.Post, *blog.Comment
// or *blog.Like, which have no marker method, so the interface is empty.
type Node any

// Kind is a type of the schema that implements Node.
type Kind string

// The kinds.
const (
	User    Kind = "User"    // parts: user
	Post    Kind = "Post"    // parts: post
	Comment Kind = "Comment" // parts: post, comment
	Like    Kind = "Like"    // parts: post, user
)

const (
	maxPart   = 128
	maxText   = 512 // longer than any id can be
	separator = "/"
)

// encoding refuses stray bits in the last character, so that no two texts mean the same id.
var encoding = base64.RawURLEncoding.Strict()

// ID names one object. Parent is the id of the post for comments and likes and
// "" for users and posts; a like's Key is the id of the user.
type ID struct {
	Kind   Kind
	Parent string
	Key    string
}

// String returns the opaque form, as clients see it.
func (id ID) String() string { return string(id.Append(nil)) }

// Append appends what String returns.
func (id ID) Append(dst []byte) []byte {
	b := append(make([]byte, 0, maxText), id.Kind...)
	if id.Kind.nested() {
		b = append(append(b, separator...), id.Parent...)
	}
	return encoding.AppendEncode(dst, append(append(b, separator...), id.Key...))
}

// nested reports whether objects of the kind live in the partition of a post.
func (k Kind) nested() bool { return k == Comment || k == Like }

var errMalformed = errors.New("not a global id")

// Parse reads an id that String made, and nothing else.
func Parse(s string) (ID, error) {
	// The decoder skips line ends, so they are looked for here.
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
	case (id.Kind == User || id.Kind == Post) && len(parts) == 2:
		id.Key = parts[1]
	case id.Kind.nested() && len(parts) == 3:
		id.Parent, id.Key = parts[1], parts[2]
	default:
		return ID{}, errMalformed
	}
	for _, part := range parts[1:] {
		if !validPart(part) {
			return ID{}, errMalformed
		}
	}
	return id, nil
}

// alphabet is what the store's ids are made of. In particular it has no ":", which
// sets the store's internal items apart.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func validPart(s string) bool {
	return s != "" && len(s) <= maxPart && strings.Trim(s, alphabet) == ""
}
