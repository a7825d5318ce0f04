package store

import (
	"context"
	"errors"

	"byline/store/blog"
	"byline/store/search"
)

// SearchOrder is the order of found posts. The names are GraphQL's.
type SearchOrder string

// The orders of found posts.
const (
	ByRelevance SearchOrder = "RELEVANCE"
	ByDate      SearchOrder = "NEWEST"
)

// Search is a search of posts.
type Search struct {
	Query    string
	Order    SearchOrder
	Tag      string // in any spelling; "": all
	AuthorID string // "": all
}

// Found is a post that a search has found.
type Found struct {
	Post    *blog.Post
	Snippet search.Snippet
}

// searchStore searches posts.
type searchStore struct {
	*base
}

// Search finds posts.
func (s *searchStore) Search(ctx context.Context, q Search, p Paging) (*Page[*Found], error) {
	return nil, errors.ErrUnsupported
}
