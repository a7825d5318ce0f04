package store

// CacheBytes is how many bytes a store's cache has counted.
func CacheBytes(s *Store) int { return s.account.CachedBytes() }
