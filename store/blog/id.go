package blog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// UserID returns the id of the user that a subject of an identity provider acts
// as. It is a digest, so that no look-up is needed and the subject stays private.
func UserID(issuer, subject string) string {
	sum := Digest(issuer, subject)
	return hex.EncodeToString(sum[:16])
}

// digest hashes the parts so that no two lists of parts collide.
func Digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = append(strconv.AppendInt(b, int64(len(p)), 10), ':')
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// validID reports whether id could be one of ours. Anything else, and so
// anything that means something in a URL, in SQL or to Cosmos DB, is absent.
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

func IsIDByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// addressable reports whether an item can be asked for that others may have written: by id or
// partition key, which may be one of ours, or as "post.2" or "username:ada". Many others Cosmos
// DB, or azcosmos, does not take in a request for one item; an empty one, or one of dots, is
// none in its path.
func Addressable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !IsIDByte(c) && c != '.' && c != ':' {
			return false
		}
	}
	return strings.Trim(name, ".") != "" && len(name) <= 255
}
