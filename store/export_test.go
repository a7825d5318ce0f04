package store

import "byline/store/blog"

// CacheBytes returns the size of a store's item cache, in bytes.
func CacheBytes(s *Store) int { return s.account.CachedBytes() }

// MaxCounted is the most comments and likes of a post, by counter.
var MaxCounted = maxCounted

// IsEdited reports whether a post has the fields of an edit.
var IsEdited = func(p *blog.Post, date blog.Date, e PostEdit) bool { return e.isEdited(p, date) }

// Recent returns how many posts the recency index of a store has, and its size in bytes.
func Recent(s *Store) (posts, bytes int) { return s.recent.Size() }
