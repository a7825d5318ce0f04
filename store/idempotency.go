package store

import (
	"encoding/hex"

	"github.com/google/uuid"

	"byline/store/blog"
)

// newID returns a new id.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// createID returns the id of an item to create. With an idempotency key it is derived from the
// key and its scope (type, author, parent), so that a repetition conflicts with the first
// attempt's item.
func createID(key string, scope ...string) string {
	if key == "" {
		return newID()
	}
	sum := blog.Digest(append(scope, key)...)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: derived by the application, RFC 9562 section 5.8
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// inputDigest identifies the input of a create with an idempotency key; "" without one.
func inputDigest(key string, input ...string) string {
	if key == "" {
		return ""
	}
	sum := blog.Digest(input...)
	return hex.EncodeToString(sum[:8])
}
