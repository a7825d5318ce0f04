package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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

// maxRelevant is how many posts a search by relevance finds at most.
const maxRelevant = 200

// Search is a search of posts.
type Search struct {
	Query    string
	Order    SearchOrder // ByRelevance if empty
	Tag      string      // in any spelling; "": all
	AuthorID string      // "": all
}

// Found is a post that a search has found, without the text of a long one.
type Found struct {
	Post    *blog.Post
	Snippet search.Snippet
}

// searchStore searches posts.
type searchStore struct {
	*base
	searcher *search.Searcher
}

// searching is a search that is being executed.
type searching struct {
	*searchStore
	query   search.Query
	filter  search.Filter
	decades []string // newest first
	first   int
}

const searchOp = "search posts"

// Search finds posts by relevance, up to maxRelevant, or by date, without end: by one query for each decade that has
// posts, two of them by relevance if the statistics of the words have not been read for some minutes, and one batch of
// reads of the posts. Invalid (Field is "query" or "tag", or "" if the server has no search).
func (s *searchStore) Search(ctx context.Context, q Search, p Paging) (*Page[*Found], error) {
	ctx = s.beginRead(ctx, SearchPosts)
	if p.First < 1 || p.First > blog.MaxPage {
		return nil, invalidFirst(searchOp)
	}
	run, err := s.begin(q)
	if err != nil {
		return nil, err
	}
	run.first = p.First
	page := &Page[*Found]{list: fmt.Sprintf("search/%v/%q/%q/%v", q.Order == ByDate, run.filter.Tag, run.filter.AuthorID,
		run.query), position: func(f *Found) (blog.Date, string) { return positionOfPost(f.Post) }}
	after, err := decodeCursor(searchOp, page.list, p.After)
	if err != nil {
		return nil, err
	}
	if after != nil {
		page.seen, page.after = after.Seen, after
	}
	if run.decades, err = s.decades(ctx); err != nil {
		return nil, err
	}
	if q.Order == ByDate {
		return page, run.newest(ctx, page)
	}
	return page, run.relevant(ctx, page)
}

// begin parses a search.
func (s *searchStore) begin(q Search) (*searching, error) {
	parsed, err := search.Parse(searchOp, q.Query)
	if err != nil {
		return nil, err
	}
	run := &searching{searchStore: s, query: parsed, filter: search.Filter{AuthorID: q.AuthorID}}
	if q.Tag == "" {
		return run, nil
	}
	var ok bool
	if run.filter.Tag, ok = blog.TagKey(q.Tag); !ok {
		return nil, blog.Invalidf(searchOp, "tag", blog.ReasonFormat, "is not a tag")
	}
	return run, nil
}

// decades returns the decades that have posts, newest first: by the timeline of all posts, which is cached.
func (s *searchStore) decades(ctx context.Context) ([]string, error) {
	item, err := s.timelineItem(ctx, searchOp, blog.AllPosts)
	if err != nil {
		return nil, err
	}
	months := []string{s.now().Month()}
	if item != nil {
		months = append(item.Newest(), months...)
	}
	slices.SortFunc(months, func(a, b string) int { return -cmp.Compare(a, b) })
	return search.Decades(months), nil
}

// newest fills a page with posts that are older than those before, newest first. Unavailable if it finds none in
// maxRounds batches.
func (r *searching) newest(ctx context.Context, page *Page[*Found]) error {
	var after blog.Entry
	if page.after != nil {
		after = blog.Entry{CreatedAt: page.after.Date, ID: page.after.ID}
	}
	for round := 1; len(r.decades) > 0 && len(page.Items) <= r.first; round++ {
		if after.ID != "" && r.decades[0] > search.Decade(after.CreatedAt) {
			r.decades = r.decades[1:]
			continue
		}
		if round > maxRounds {
			if page.More = true; len(page.Items) == 0 {
				return manyDeletions(searchOp)
			}
			return nil
		}
		want := r.first + 1 - len(page.Items)
		hits, err := r.searcher.Newest(ctx, r.query, r.filter, r.decades[0], after, want)
		if err != nil {
			return err
		}
		if err := r.add(ctx, page, hits); err != nil {
			return err
		}
		if len(hits) < want {
			r.decades = r.decades[1:]
		} else {
			after = hits[len(hits)-1].Entry
		}
	}
	page.cut(r.first)
	return nil
}

// relevant fills a page with the posts after those before, best first. Where it begins is known by the last post before
// it, as others may have been hidden, or by the number of posts, if that one is gone.
func (r *searching) relevant(ctx context.Context, page *Page[*Found]) error {
	for n := page.seen + r.first + 1; ; n += r.first + 1 {
		n = min(n, maxRelevant)
		hits, err := r.searcher.Relevant(ctx, r.query, r.filter, r.decades, n)
		if err != nil {
			return err
		}
		start := min(page.seen, len(hits))
		if page.after != nil {
			if i := slices.IndexFunc(hits, func(h search.Hit) bool { return h.ID == page.after.ID }); i >= 0 {
				start = i + 1
			}
		}
		page.Items = nil
		if err := r.add(ctx, page, hits[start:]); err != nil {
			return err
		}
		if len(page.Items) > r.first || len(hits) < n || n == maxRelevant {
			page.cut(r.first)
			return nil
		}
	}
}

// add appends the posts of hits to a page, but for those that do not exist or are hidden.
func (r *searching) add(ctx context.Context, page *Page[*Found], hits []search.Hit) error {
	entries := make([]blog.Entry, len(hits))
	for i, h := range hits {
		entries[i] = h.Entry
	}
	posts, err := r.listedPosts(ctx, entries)
	if err != nil {
		return err
	}
	for i, p := range posts {
		if p != nil {
			page.Items = append(page.Items, &Found{p, hits[i].Snippet})
		}
	}
	return nil
}

// SearchRU returns what a first page of a search will cost in Cosmos DB, without its posts, in RU: by the statistics
// that are known, without a request. It returns false if they are not known. An invalid search costs nothing.
func (s *searchStore) SearchRU(q Search, first int) (ru float64, known bool) {
	run, err := s.begin(q)
	if err != nil {
		return 0, true
	}
	return s.searcher.RU(run.query, q.Order == ByDate, first+1)
}
