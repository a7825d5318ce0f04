package site

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf16"

	"byline/graph/refusal"
	"byline/graph/transport"
)

// searchParameters are the parameters of the page of searches: what is searched for, "newest" or another order, a tag
// and the global id of an author that posts must have, and the cursor of the page before.
var searchParameters = []string{"q", "order", "tag", "author", "after"}

// results are what a search has found.
type results struct {
	Query, Order, Tag, Author string // of the address
	Posts                     []result
	Problem                   string // why the search was refused; "" if it was not
}

// result is a post that a search has found, and a part of it.
type result struct {
	Post    post
	Snippet []snippetPart
}

// snippetPart is a part of a snippet that matches, or does not.
type snippetPart struct {
	Text  string
	Match bool
}

// Newest reports whether the newest posts come first.
func (r *results) Newest() bool { return r.Order == "newest" }

// InOrder returns the address of the same search in an order, which may be "".
func (p *page) InOrder(order string) string { return p.site.pathOfSearch(p.Results, order, "") }

// Unfiltered returns the address of the same search without the tag and the author.
func (p *page) Unfiltered() string {
	return p.site.pathOfSearch(&results{Query: p.Results.Query}, p.Results.Order, "")
}

// SearchPath returns the path of the page of searches, "" without one.
func (p *page) SearchPath() string { return p.site.routes[searchPage].Path }

// pathOfSearch returns the address of a page of a search.
func (s *Site) pathOfSearch(of *results, order, after string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": of.Query, "order": order, "tag": of.Tag, "author": of.Author,
		"after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	path := s.pathOf(searchPage, "")
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// search renders the page of searches. No cache keeps it: most are requested once.
func (s *Site) search(of route) renderer {
	return func(r *http.Request, q url.Values) (*rendered, error) {
		p := s.newPage()
		p.Heading = "Search"
		p.Results = &results{Query: strings.TrimSpace(q.Get("q")), Order: q.Get("order"), Tag: q.Get("tag"),
			Author: q.Get("author")}
		p.Title = p.Heading
		if p.Results.Query != "" {
			p.Title = p.Results.Query + " · " + p.Heading
			if err := s.fillResults(r, of, p, q.Get("after")); err != nil {
				return nil, err
			}
		}
		text, err := p.render(s.shell)
		if err != nil {
			return nil, err
		}
		return &rendered{uncached: true, media: mediaHTML, body: transport.NewBody(text)}, nil
	}
}

// fillResults fills a page with the posts that its search finds after a cursor.
func (s *Site) fillResults(r *http.Request, of route, p *page, after string) error {
	variables := map[string]string{"query": p.Results.Query}
	if p.Results.Newest() {
		variables["order"] = "NEWEST"
	}
	for name, value := range map[string]string{"tag": p.Results.Tag, "author": p.Results.Author, "after": after} {
		if value != "" {
			variables[name] = value
		}
	}
	_, d, err := s.query(r, string(searchPage), variables)
	var refused *transport.QueryError
	if errors.As(err, &refused) && refused.Code == refusal.BadUserInput && refused.Field != "after" {
		p.Results.Problem = problemOf(refused)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range d.Search.Edges {
		p.Results.Posts = append(p.Results.Posts, result{e.Node, e.Snippet.parts()})
	}
	if cursor := d.Search.PageInfo.next(); cursor != "" {
		p.Next = s.pathOfSearch(p.Results, p.Results.Order, cursor)
	}
	if of.Document != "" && after == "" {
		_, p.Inlined = s.first(r, of, variables)
	}
	return nil
}

// problemOf says why a search was refused. Messages about an argument begin with a verb.
func problemOf(e *transport.QueryError) string {
	if what := map[string]string{"query": "search", "tag": "tag", "author": "author"}[e.Field]; what != "" {
		return "The " + what + " " + e.Message + "."
	}
	return "This blog has no search at present."
}

// parts returns the snippet in parts. Its matches are in UTF-16 code units.
func (s snippet) parts() (all []snippetPart) {
	units, from := utf16.Encode([]rune(s.Text)), 0
	add := func(to int, match bool) {
		if to = min(to, len(units)); to > from {
			all, from = append(all, snippetPart{string(utf16.Decode(units[from:to])), match}), to
		}
	}
	for _, m := range s.Matches {
		add(m.Start, false)
		add(m.End, true)
	}
	add(len(units), false)
	return all
}
