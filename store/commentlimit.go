package store

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
	"byline/store/cosmos"
)

// The comments of an author on a post are limited to maxPerAuthor, including those deleted in the last 30
// days, whose tombstones also fill the partition. Cosmos DB cannot check that in a batch, and a query for
// each comment would make every comment more expensive. So an instance counts by a query, and then allows
// up to recountAfter comments before it counts again. It first counts at an author's second comment on a
// post with at least maxPerAuthor writes, known from the response to the first comment. So an author can
// exceed the limit by recountAfter comments for each instance, and by those in flight.
const (
	maxPerAuthor = 1000
	recountAfter = 50
	fullFor      = time.Minute // a refused author is not counted again; tombstones expire only after days
)

// authorComments holds how many comments authors may write on posts before the next count. It evicts the
// least recently used entries, each of which allows one more comment. It is safe for concurrent use.
type authorComments struct {
	mu      sync.Mutex
	allowed *simplelru.LRU[authorOnPost, allowance] // guarded by mu; without an entry there is no count
}

// allowance is how many comments an author may write before the next count.
type allowance struct {
	n    int
	full time.Time // until then the author is known to be at the limit
}

type authorOnPost struct{ author, post string }

func newAuthorComments() *authorComments {
	allowed, _ := simplelru.NewLRU[authorOnPost, allowance](1<<14, nil) // fails only for sizes below 1
	return &authorComments{allowed: allowed}
}

// take uses one allowed comment. It returns false if none is left: until full the limit is known to be
// reached, after it the caller must count.
func (a *authorComments) take(k authorOnPost) (ok bool, full time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, known := a.allowed.Get(k)
	if known && have.n > 0 {
		a.allowed.Add(k, allowance{n: have.n - 1})
	}
	return !known || have.n > 0, have.full
}

// allow sets the allowance until the next count.
func (a *authorComments) allow(k authorOnPost, what allowance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed.Add(k, what)
}

// written records a comment. If the author has no entry and the post has at least maxPerAuthor writes,
// which bound the comments of an author, it has their next comment counted.
func (a *authorComments) written(k authorOnPost, p *blog.Post) {
	if max(p.Revision, int64(p.CommentCount)) < maxPerAuthor {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.allowed.Contains(k) {
		a.allowed.Add(k, allowance{})
	}
}

// checkAuthorComments returns LimitReached if the author has written maxPerAuthor comments on
// the post.
func (s *Store) checkAuthorComments(ctx context.Context, op string, k authorOnPost) error {
	limited := &blog.Error{Code: blog.LimitReached, Op: op,
		Message: "you have written as many comments on this post as you can"}
	switch ok, full := s.comments.take(k); {
	case ok:
		return nil
	case s.o.Clock().Before(full):
		return limited
	}
	query := cosmos.Query{Partition: k.post,
		Text: "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @post AND c.type IN ('comment', 'deletedComment') AND c.userId = @author",
	}.With("@post", k.post).With("@author", k.author)
	n, err := countItems(ctx, op, s.posts, query)
	if err != nil {
		return err
	}
	if n >= maxPerAuthor {
		s.comments.allow(k, allowance{full: s.o.Clock().Add(fullFor)})
		return limited
	}
	s.comments.allow(k, allowance{n: min(recountAfter, maxPerAuthor-n) - 1}) // this is one of them
	return nil
}
