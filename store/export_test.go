package store

import "context"

// ProjectCopies projects posts as if they had just come from the change feed.
func (s *Store) ProjectCopies(ctx context.Context, posts ...*Post) error {
	changed := map[string]*Post{}
	for _, p := range posts {
		changed[p.ID] = p
	}
	return s.projectCopies(ctx, changed)
}

// RefillFeed fills the feed up.
func (s *Store) RefillFeed(ctx context.Context) error {
	entries, err := s.feedEntries(ctx, typePost)
	if err != nil {
		return err
	}
	return s.refillFeed(ctx, typePost, entries)
}

// CacheBytes is how many bytes a store's cache has counted.
func CacheBytes(s *Store) int {
	return s.account.CachedBytes()
}

// ShortFields are what a list needs of a post.
const ShortFields = shortFields

// PlainPosts returns the posts of a page, if it is plain.
func PlainPosts(page []byte) ([]Post, bool) { return plainItems(page, Post{}, plainShort) }
