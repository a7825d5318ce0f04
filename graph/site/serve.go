package site

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"byline/graph/refusal"
	"byline/graph/transport"
)

// newPage returns an empty page.
func (s *Site) newPage() *page {
	return &page{site: s, Blog: s.shell.title, URL: s.url, Type: "website"}
}

// page renders the page of a route.
func (s *Site) page(of route) renderer {
	return func(r *http.Request, q url.Values) (*rendered, error) {
		value, after := r.PathValue(parameters[of.Page]), q.Get("after")
		variables := variablesOf(of.Page, value, after)
		got, d, err := s.query(r, string(of.Page), variables)
		if err != nil {
			return nil, err
		}
		p, present, err := s.show(r, of.Page, value, after, d)
		if err != nil {
			return nil, err
		}
		if present != value {
			return redirectTo(withAfter(s.pathOf(of.Page, present), after), got), nil
		}
		all, partial := []*transport.Response{got}, false
		if of.Document != "" && after == "" {
			var first *transport.Response
			if first, p.Inlined = s.first(r, of, variables); first != nil {
				all = append(all, first)
			}
			partial = first == nil
		}
		text, err := p.render(s.shell)
		if err != nil {
			return nil, err
		}
		page := newRendered(mediaHTML, text, all...)
		page.uncached = partial // the next rendering may have the response
		return page, nil
	}
}

// query executes a query of this package and decodes its data.
func (s *Site) query(r *http.Request, name string, variables map[string]string) (*transport.Response, *data, error) {
	got, err := s.gateway.Query(r, documentID(name), variables)
	if err != nil {
		return nil, nil, err
	}
	var of struct{ Data data }
	err = json.Unmarshal(got.Body(), &of)
	return got, &of.Data, err
}

// first returns the response that the front end would request first. Without it the page is complete, but for a request
// of the front end: so an error is logged.
func (s *Site) first(r *http.Request, of route, variables map[string]string) (*transport.Response, *inlined) {
	all := map[string]any{}
	maps.Copy(all, of.Variables)
	for name, value := range variables {
		all[name] = value
	}
	got, err := s.gateway.Query(r, of.Document, all)
	var text []byte
	if err == nil {
		text, err = json.Marshal(all)
	}
	if err != nil {
		s.log.Warn("page without the response to its document", "path", r.URL.Path, "document", of.Document,
			"error", err)
		return nil, nil
	}
	return got, &inlined{Document: of.Document, Variables: string(text), Response: got.Body()}
}

// variablesOf returns the variables of the query of a page.
func variablesOf(page kind, value, after string) map[string]string {
	variables := map[string]string{}
	if name := parameters[page]; name != "" {
		variables[name] = value
	}
	if after != "" {
		variables["after"] = after
	}
	return variables
}

// show makes the page of a response. present is the value that its parameter has now: another one for a former slug or
// username, and for another spelling.
func (s *Site) show(r *http.Request, of kind, value, after string, d *data) (p *page, present string, err error) {
	p, present = s.newPage(), value
	switch of {
	case frontPage:
		p.Front, p.Posts, p.Next = d, d.Posts.posts(), d.Posts.PageInfo.next()
		p.Heading, p.Description = s.shell.title, "The newest posts of "+s.shell.title+"."
	case postPage:
		if d.Post == nil || d.Post.ContentHTML == nil {
			return nil, "", s.whyNoPost(r, value)
		}
		p.Post, present = d.Post, d.Post.Slug
		p.Title, p.Heading, p.Description, p.Type = d.Post.Title, d.Post.Title, d.Post.Excerpt, "article"
	case tagPage:
		if d.Tag == nil || d.Tag.PostCount == 0 { // every possible tag exists
			return nil, "", errNotFound
		}
		p.Tag, present, p.Posts, p.Next = d.Tag, d.Tag.Name, d.Tag.Posts.posts(), d.Tag.Posts.PageInfo.next()
		p.Title, p.Heading = "#"+present, "#"+present
		p.Description = p.Count(d.Tag.PostCount, "post") + " with the tag " + present + "."
	case authorPage:
		if d.Author == nil {
			return nil, "", errNotFound
		}
		p.Author, present = d.Author, d.Author.Username
		p.Posts, p.Next = d.Author.Posts.posts(), d.Author.Posts.PageInfo.next()
		p.Title, p.Heading, p.Type = d.Author.DisplayName, d.Author.DisplayName, "profile"
		if p.Description = d.Author.Bio; p.Description == "" {
			p.Description = "Posts of " + d.Author.DisplayName + "."
		}
	}
	address := s.pathOf(of, present)
	p.Indexed, p.Canonical = after == "", s.url+address // what a later page of a list has changes
	p.Feed = s.url + strings.TrimSuffix(address, "/") + "/feed.atom"
	if of == postPage {
		p.Feed = s.url + "/feed.atom"
		p.Markdown, p.OEmbed = p.Canonical+".md", s.oEmbedOf(p.Canonical)
	}
	if p.Next != "" {
		p.Next = withAfter(address, p.Next)
	}
	p.Linked = s.linked(p)
	return p, present, nil
}

// next returns the cursor of the next page, "" at the end.
func (i pageInfo) next() string {
	if !i.HasNextPage {
		return ""
	}
	return i.EndCursor
}

// deletedTimeout limits the read of a tombstone.
const deletedTimeout = 10 * time.Second

// whyNoPost returns errGone for a post that was deleted, as long as that is known, and else errNotFound.
func (s *Site) whyNoPost(r *http.Request, slug string) error {
	ctx, cancel := context.WithTimeout(r.Context(), deletedTimeout)
	defer cancel()
	deleted, err := s.deleted(ctx, slug)
	switch {
	case err != nil:
		return &transport.QueryError{Code: refusal.Unavailable, Message: err.Error()}
	case deleted:
		return errGone
	}
	return errNotFound
}

// linked returns the JSON-LD of a page.
func (s *Site) linked(p *page) object {
	switch {
	case p.Post != nil:
		o := s.linkedPost(p.Post)
		o["mainEntityOfPage"], o["isPartOf"] = p.Canonical, s.linkedBlog()
		return linkedGraph(o, s.breadcrumbs(p.Post.Title, p.Canonical))
	case p.Author != nil:
		return linkedGraph(object{"@type": "ProfilePage", "url": p.Canonical, "mainEntity": s.linkedAuthor(p.Author),
			"hasPart": s.linkedPosts(p.Posts)}, s.breadcrumbs(p.Author.DisplayName, p.Canonical))
	case p.Tag != nil:
		return linkedGraph(object{"@type": "CollectionPage", "name": p.Heading, "url": p.Canonical,
			"hasPart": s.linkedPosts(p.Posts)}, s.breadcrumbs(p.Heading, p.Canonical))
	}
	o := s.linkedBlog()
	o["blogPost"] = s.linkedPosts(p.Posts)
	if p.SearchPath() == "" {
		return linkedGraph(o)
	}
	return linkedGraph(o, s.linkedSearch())
}
