package store

import "byline/store/blog"

// CacheBytes returns the size of a store's item cache, in bytes.
func CacheBytes(s *Store) int { return s.account.CachedBytes() }

// MaxCounted is the most comments and likes of a post, by counter.
var MaxCounted = maxCounted

// IsEdited reports whether a post has the fields of an edit.
var IsEdited = func(p *blog.Post, date blog.Date, e PostEdit) bool { return e.isEdited(p, date) }

// RecentPosts returns how many posts the recency index has.
func (s *Store) RecentPosts() int {
	n, _ := s.recent.Size()
	return n
}

// RecentBytes returns the size of the recency index.
func (s *Store) RecentBytes() int {
	_, bytes := s.recent.Size()
	return bytes
}
