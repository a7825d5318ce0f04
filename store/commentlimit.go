package store

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
	"byline/store/cosmos"
)

// The comments of an author on a post are limited to maxPerAuthor, including those deleted in
// the last 30 days, whose tombstones fill the partition as well. Cosmos DB cannot check that in
// a batch, and a query for each comment would make all of them more expensive. So an instance
// counts by a query, and then allows up to recountAfter comments before it counts again. It
// counts for the first time at an author's second comment on a post that was written
// maxPerAuthor times, which the response to the first comment told. So an author can exceed the
// limit by at most recountAfter comments for each instance, and by those in flight.
const (
	maxPerAuthor = 1000
	recountAfter = 50
)

// authorComments is how many comments authors may write on posts before they are counted. The
// least recently used entries are dropped, which allows one comment more. It is safe for
// concurrent use.
type authorComments struct {
	mu      sync.Mutex
	allowed *simplelru.LRU[authorOnPost, int] // guarded by mu; an unknown author is not counted
}

type authorOnPost struct{ author, post string }

func newAuthorComments() *authorComments {
	allowed, _ := simplelru.NewLRU[authorOnPost, int](1<<14, nil) // fails only for sizes below 1
	return &authorComments{allowed: allowed}
}

// take takes one of the comments that are allowed. It returns false if they are to be counted.
func (a *authorComments) take(k authorOnPost) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, known := a.allowed.Get(k)
	if known && n > 0 {
		a.allowed.Add(k, n-1)
	}
	return !known || n > 0
}

// allow allows n comments before the next count.
func (a *authorComments) allow(k authorOnPost, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed.Add(k, n)
}

// written notes a comment. The next one is counted if the post, whose revision no author's
// comments exceed, has so many writes, and the author is unknown.
func (a *authorComments) written(k authorOnPost, p *blog.Post) {
	if max(p.Revision, int64(p.CommentCount)) < maxPerAuthor {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.allowed.Contains(k) {
		a.allowed.Add(k, 0)
	}
}

// checkAuthorComments returns LimitReached if the author has written maxPerAuthor comments on
// the post.
func (s *Store) checkAuthorComments(ctx context.Context, op string, k authorOnPost) error {
	if s.comments.take(k) {
		return nil
	}
	n := 0
	query := cosmos.Query{Partition: k.post, Text: "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'comment' AND c.userId = @author"}.With("@author", k.author)
	for page, err := range s.posts.Query(ctx, query) {
		if err != nil {
			return blog.CosmosError(op, err)
		}
		for _, raw := range page {
			part := 0
			if err := json.Unmarshal(raw, &part); err != nil {
				return blog.Malformed(op, "count", err)
			}
			n += part
		}
	}
	if n >= maxPerAuthor {
		return &blog.Error{Code: blog.LimitReached, Op: op, Message: "you have written as many comments on this post as you can"}
	}
	s.comments.allow(k, min(recountAfter, maxPerAuthor-n)-1) // this is one of them
	return nil
}
