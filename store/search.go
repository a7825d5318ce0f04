package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

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
	searcher     *search.Searcher
	knownDecades atomic.Pointer[[]string] // of the last search; nil: unknown
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
	decades, err := s.decades(ctx)
	if err != nil {
		return nil, err
	}
	s.knownDecades.Store(&decades)
	run.decades = decades
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
// maxRounds batches with hidden posts.
func (r *searching) newest(ctx context.Context, page *Page[*Found]) error {
	var after blog.Entry
	if page.after != nil {
		after = blog.Entry{CreatedAt: page.after.Date, ID: page.after.ID}
	}
	for len(r.decades) > 0 && after.ID != "" && r.decades[0] > search.Decade(after.CreatedAt) {
		r.decades = r.decades[1:]
	}
	for rounds := 0; len(r.decades) > 0 && len(page.Items) <= r.first; {
		if rounds == maxRounds {
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
		posts, err := r.postsOf(ctx, hits)
		if err != nil {
			return err
		}
		for i, p := range posts {
			if p != nil {
				page.Items = append(page.Items, &Found{p, hits[i].Snippet})
			}
		}
		if slices.Contains(posts, nil) {
			rounds++
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

// relevant fills a page with the posts after those before, best first: by one query, or by a second one for all that a
// search may find, if the first one finds too few that are not hidden, or not the last post before the page.
func (r *searching) relevant(ctx context.Context, page *Page[*Found]) error {
	read := map[string]*blog.Post{} // nil: hidden
	for n := min(page.seen+r.first+1, maxRelevant); ; n = maxRelevant {
		hits, err := r.searcher.Relevant(ctx, r.query, r.filter, r.decades, n)
		if err != nil {
			return err
		}
		all := n == maxRelevant || len(hits) < n
		start, found := startOf(page, hits)
		if !found && !all {
			continue
		}
		page.Items, page.ranks = nil, nil
		for size := r.first + 1; start < len(hits) && len(page.Items) <= r.first; size *= 2 {
			end := min(start+size, len(hits))
			if err := r.readInto(ctx, read, hits[start:end]); err != nil {
				return err
			}
			for ; start < end; start++ {
				if p := read[hits[start].ID]; p != nil {
					page.Items = append(page.Items, &Found{p, hits[start].Snippet})
					page.ranks = append(page.ranks, start+1)
				}
			}
		}
		if len(page.Items) > r.first || all {
			page.cut(r.first)
			return nil
		}
	}
}

// startOf returns the index of the hit at which a page begins, and whether the post before it is among the hits. If it
// is not, it has been deleted, and others have moved up.
func startOf(page *Page[*Found], hits []search.Hit) (start int, found bool) {
	if page.after == nil {
		return 0, true
	}
	if i := slices.IndexFunc(hits, func(h search.Hit) bool { return h.ID == page.after.ID }); i >= 0 {
		return i + 1, true
	}
	return page.seen - 1, false
}

// readInto reads the posts of hits that have not been read.
func (r *searching) readInto(ctx context.Context, read map[string]*blog.Post, hits []search.Hit) error {
	var missing []search.Hit
	for _, h := range hits {
		if _, ok := read[h.ID]; !ok {
			missing = append(missing, h)
		}
	}
	posts, err := r.postsOf(ctx, missing)
	for i, p := range posts {
		read[missing[i].ID] = p
	}
	return err
}

// postsOf reads the posts of hits: nil for those that do not exist, or are hidden.
func (r *searching) postsOf(ctx context.Context, hits []search.Hit) ([]*blog.Post, error) {
	entries := make([]blog.Entry, len(hits))
	for i, h := range hits {
		entries[i] = h.Entry
	}
	return r.listedPosts(ctx, entries)
}

// SearchRU returns what a first page of a search will cost in Cosmos DB, without its posts, in RU: by the statistics
// that are known, without a request. It returns false if they are not known, or not how many posts a tag or an author
// has. An invalid search costs nothing.
func (s *searchStore) SearchRU(q Search, first int) (ru float64, known bool) {
	run, err := s.begin(q)
	if err != nil {
		return 0, true
	}
	decades := s.knownDecades.Load()
	if decades == nil || run.filter != (search.Filter{}) {
		return 0, false
	}
	return s.searcher.RU(run.query, *decades, q.Order == ByDate, first+1)
}
