package blog

import (
	"crypto/sha256"
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
