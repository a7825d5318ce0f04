package store

// CacheBytes returns the size of a store's item cache, in bytes.
func CacheBytes(s *Store) int { return s.account.CachedBytes() }

// MaxCounted is the most comments and likes of a post, by counter.
var MaxCounted = maxCounted

// IsEdited reports whether a post has the fields of an edit.
var IsEdited = isEdited
