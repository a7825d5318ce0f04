// Package search is full-text search of posts: the item that each post has in the container search, the syntax of
// queries, and the requests that find posts by relevance or by date.
package search

import (
	"context"
	"errors"

	"byline/store/blog"
)

// Query is a parsed search query.
type Query struct{}

// Filter restricts a search. The zero value restricts nothing.
type Filter struct {
	Tag      string // a key, see blog.ParseTag
	AuthorID string
}

// Hit is a post that matches a query.
type Hit struct {
	blog.Entry
	Snippet Snippet
}

// Snippet is the part of a text in which a query matches first.
type Snippet struct {
	Text    string
	Matches []Range // in order, without overlaps
}

// Range is a part of a text, in UTF-16 code units, as in JavaScript.
type Range struct{ Start, End int }

// Parse parses a search query: words, "phrases" and -excluded terms. Invalid if it has no term, or more than 10.
func Parse(op, text string) (Query, error) { return Query{}, errors.ErrUnsupported }

// Searcher sends the requests of searches.
type Searcher struct{}

// Newest returns up to n hits older than after in a decade, newest first.
func (s *Searcher) Newest(ctx context.Context, q Query, f Filter, decade string, after blog.Entry, n int) ([]Hit, error) {
	return nil, errors.ErrUnsupported
}

// Relevant returns the n best hits of all decades, best first.
func (s *Searcher) Relevant(ctx context.Context, q Query, f Filter, decades []string, n int) ([]Hit, error) {
	return nil, errors.ErrUnsupported
}
