package store

// CacheBytes is how many bytes a store's cache has counted.
func CacheBytes(s *Store) int { return s.account.CachedBytes() }

// MaxCounted is how many comments and likes a post can have, by counter.
var MaxCounted = maxCounted
