package blog

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strconv"
	"strings"
)

// UserID returns the id of the user for a subject of an identity provider. The id is a digest, so it needs no
// lookup and keeps the subject private.
func UserID(issuer, subject string) string {
	sum := Digest(issuer, subject)
	return hex.EncodeToString(sum[:16])
}

// Digest hashes the parts unambiguously.
func Digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = append(strconv.AppendInt(b, int64(len(p)), 10), ':')
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// The ids of new posts are short, as they are part of addresses: a letter and 75 random bits, in lower-case base32
// without letters that look like digits. The letter tells whether the post was long when it was created, so that
// readers also read its text. Edits may have shortened it, or made others long. Other programs' ids tell nothing.
const (
	shortPost, longPost = 'p', 'q'
	postIDLength        = 16
)

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

// PostID returns the id of a new post, which is not long, from random bits.
func PostID(random [10]byte) string {
	return string(shortPost) + idEncoding.EncodeToString(random[:])[:postIDLength-1]
}

// PostIDBytes returns a short form of the ids of PostID and LongID; ok is false for other ids.
func PostIDBytes(id string) (short [10]byte, ok bool) {
	if !isPostID(id) {
		return short, false
	}
	bits := func(digits string) (n uint64) {
		for _, digit := range []byte(digits) {
			n = n<<5 | uint64(idDigits[digit])
		}
		return n
	}
	first, last := bits(id[1:9]), bits(id[9:])<<5 // 40 bits each, of which the last five are free
	if id[0] == longPost {
		last++
	}
	for i := range 5 {
		short[i], short[5+i] = byte(first>>(32-8*i)), byte(last>>(32-8*i))
	}
	return short, true
}

// idDigits are the values of the digits of ids.
var idDigits = func() (values [256]byte) {
	for value, digit := range []byte(idAlphabet) {
		values[digit] = byte(value)
	}
	return values
}()

// PostIDOf returns the id that PostIDBytes has shortened.
func PostIDOf(short [10]byte) string {
	id := PostID(short)
	if short[9]&1 == 1 {
		return LongID(id)
	}
	return id
}

// isPostID reports whether an id is one of PostID or LongID.
func isPostID(id string) bool {
	return len(id) == postIDLength && (id[0] == shortPost || id[0] == longPost) && strings.Trim(id[1:], idAlphabet) == ""
}

// LongID returns the id of a post that is long when it is created, given the one that PostID has returned.
func LongID(id string) string { return string(longPost) + id[1:] }

// IsLongID reports whether an id is one of LongID.
func IsLongID(id string) bool { return isPostID(id) && id[0] == longPost }

// OtherID returns the id of PostID that the post would have with a text of the other kind, long or short.
func OtherID(id string) string {
	if IsLongID(id) {
		return string(shortPost) + id[1:]
	}
	return LongID(id)
}

// ValidID reports whether id has the form of the blog's ids. Other ids, such as all with a meaning in
// URLs or SQL, are treated as unknown.
func ValidID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if !IsIDByte(id[i]) {
			return false
		}
	}
	return true
}

// IsIDByte reports whether ids and usernames may contain c.
func IsIDByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// Addressable reports whether an id or partition key can be used in a request: a valid id, "post.2" or
// "username:ada". Cosmos DB and azcosmos do not accept all ids that other programs may have written.
func Addressable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !IsIDByte(c) && c != '.' && c != ':' {
			return false
		}
	}
	return strings.Trim(name, ".") != "" && len(name) <= 255
}
