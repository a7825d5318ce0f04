package search

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

const op = "search posts"

// Hit is a post that matches a query.
type Hit struct {
	blog.Entry
	Snippet Snippet
}

// Searcher sends the requests of searches.
type Searcher struct {
	container *cosmos.Container
	clock     func() time.Time
	logger    *slog.Logger

	sizes   *lru.Cache[string, size]  // by decade
	hits    *lru.Cache[hitsOf, known] // by term
	refused atomic.Int64              // until when Cosmos DB is not asked to rank, in ns since 1970

	meanText atomic.Int64 // characters of the texts found lately; 0: unknown
}

// New returns a Searcher of a container.
func New(c *cosmos.Container, clock func() time.Time, logger *slog.Logger) *Searcher {
	sizes, _ := lru.New[string, size](maxDecades) // fails only for sizes below 1
	hits, _ := lru.New[hitsOf, known](maxKnownTerms)
	return &Searcher{container: c, clock: clock, logger: logger, sizes: sizes, hits: hits}
}

// row is what a query selects of a post.
type row struct {
	blog.Entry
	Windows []string `json:"windows"`
	Length  int64    `json:"length"` // of the text, in UTF-16 code units
}

// selected is the SQL of a row.
func (q Query) selected() string {
	return `{"id": c.id, "creationDate": c.creationDate, "length": LENGTH(c.text), "windows": ` + q.windows() + "}"
}

// hit returns the hit of a row.
func (s *Searcher) hit(q Query, r row) Hit {
	const recent = 50 // rows that the mean is of, about
	if mean := s.meanText.Load(); mean == 0 {
		s.meanText.Store(r.Length)
	} else {
		s.meanText.Store(mean + (r.Length-mean)/recent) // of two at a time, one may not count
	}
	return Hit{r.Entry, q.snippet(r.Windows)}
}

// Newest returns up to n posts of a decade that match a query and are older than after, newest first: one request,
// served by the composite index of the order. Invalid if the container does not exist.
func (s *Searcher) Newest(
	ctx context.Context, q Query, f Filter, decade string, after blog.Entry, n int,
) (hits []Hit, err error) {
	request, where := q.where(f, decade)
	if after.ID != "" {
		where += " AND c.creationDate <= @date AND (c.creationDate < @date OR c.id < @id)"
		request = request.With("@date", after.CreatedAt).With("@id", after.ID)
	}
	request.Text = fmt.Sprintf("SELECT TOP %d VALUE %s FROM c WHERE %s "+
		"ORDER BY c.decade DESC, c.creationDate DESC, c.id DESC", n, q.selected(), where)
	request.PageSize = int32(n)
	err = eachRow(ctx, s.container, request, func(r row) { hits = append(hits, s.hit(q, r)) })
	return hits, err
}

// eachRow calls f with the rows of a query.
func eachRow[T any](ctx context.Context, c *cosmos.Container, q cosmos.Query, f func(T)) error {
	for rows, err := range c.Query(ctx, q) {
		if err != nil {
			return wrap(err)
		}
		for _, raw := range rows {
			var r T
			if err := json.Unmarshal(raw, &r); err != nil {
				return blog.Malformed(op, "search", err)
			}
			f(r)
		}
	}
	return nil
}

// wrap converts an error of Cosmos DB.
func wrap(err error) error {
	if cosmos.ErrorOf(err).NoContainer() {
		return &blog.Error{Code: blog.Invalid, Op: op, Reason: blog.ReasonRequest, Message: "this server has no search",
			Err: err}
	}
	return stored.Error(op, err)
}
