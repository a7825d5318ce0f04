package site

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
)

// rendered is a page as it is sent.
type rendered struct {
	page     *page // before it is rendered; nil for a redirect
	status   int
	location string    // of a redirect
	tags     [2]string // of the responses that it is made of
	tag      string    // its entity tag
	age      string    // Cache-Control
	body     *body
}

// bytes returns the memory of the page, with that of its body in all codings.
func (p *rendered) bytes() int {
	const entry = 500
	if p.body == nil {
		return entry
	}
	return entry + 2*len(p.body.bytes) // compressed, it is less than half as long
}

// newPage returns an empty page.
func (s *Site) newPage() *page { return &page{site: s, Blog: s.shell.title, Type: "website"} }

// pageOf serves the page of a route.
func (s *Site) pageOf(of route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, after := r.PathValue(parameters[of.Page]), r.URL.Query().Get("after")
		if of.Page == postPage {
			if slug, ok := strings.CutSuffix(value, ".md"); ok {
				s.serveMarkdown(w, r, slug)
				return
			}
		}
		p, err := s.find(r, of, value, after)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.write(w, r, p)
	}
}

// find returns a page: the one that was rendered before, while its responses are the same.
func (s *Site) find(r *http.Request, of route, value, after string) (*rendered, error) {
	variables := variablesOf(of.Page, value, after)
	got, err := s.gateway.query(r, documentID(string(of.Page)), variables)
	if err != nil {
		return nil, err
	}
	tags := [2]string{got.tag, ""}
	var first result
	var own map[string]any
	if of.Document != "" && after == "" {
		own = maps.Clone(of.Variables)
		if own == nil {
			own = map[string]any{}
		}
		for name, value := range variables {
			own[name] = value
		}
		if first, err = s.gateway.query(r, of.Document, own); err != nil {
			return nil, err
		}
		tags[1] = first.tag
	}
	cacheable := got.tag != "" && (own == nil || first.tag != "")
	key := string(of.Page) + " " + after + " " + value
	if s.pages != nil && cacheable {
		if known, ok := s.pages.GetIfPresent(key); ok && known.tags == tags {
			return known, nil
		}
	}
	p, err := s.show(r, of.Page, value, after, got)
	if err != nil {
		return nil, err
	}
	p.tags, p.age = tags, "no-cache"
	if cacheable {
		sum := sha256.Sum256([]byte(tags[0] + tags[1]))
		p.tag, p.age = `W/"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`, got.age
	}
	if p.page != nil {
		if own != nil {
			text, err := json.Marshal(own)
			if err != nil {
				return nil, err
			}
			p.page.Inlined = &inlined{Document: of.Document, Variables: string(text), Response: first.body}
		}
		if p.body, err = p.page.render(s.shell); err != nil {
			return nil, err
		}
		p.page = nil
	}
	if s.pages != nil && cacheable {
		s.pages.Set(key, p)
	}
	return p, nil
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

// write sends a page.
func (s *Site) write(w http.ResponseWriter, r *http.Request, p *rendered) {
	w.Header().Set("Cache-Control", p.age)
	if p.location != "" {
		w.Header().Set("Location", p.location)
		w.WriteHeader(p.status)
		return
	}
	p.body.write(w, r, p.status, p.tag)
}

// show makes the page of a response.
func (s *Site) show(r *http.Request, of kind, value, after string, got result) (*rendered, error) {
	d, err := got.data()
	if err != nil {
		return nil, err
	}
	p := s.newPage()
	address, name := s.pathOf(of, value), value // name is the present value of the parameter
	switch of {
	case frontPage:
		p.Front, p.Posts, p.Next = d, d.Posts.posts(), d.Posts.PageInfo.next()
		p.Heading, p.Description = s.shell.title, "The newest posts of "+s.shell.title+"."
	case postPage:
		if d.Post == nil {
			return nil, s.whyNoPost(r, value)
		}
		p.Post, name = d.Post, d.Post.Slug
		p.Title, p.Heading, p.Description, p.Type = d.Post.Title, d.Post.Title, d.Post.Excerpt, "article"
	case tagPage:
		if d.Tag == nil || d.Tag.PostCount == 0 { // every possible tag exists
			return nil, errNotFound
		}
		p.Tag, name, p.Posts, p.Next = d.Tag, d.Tag.Name, d.Tag.Posts.posts(), d.Tag.Posts.PageInfo.next()
		p.Title, p.Heading = "#"+name, "#"+name
		p.Description = p.Count(d.Tag.PostCount) + " with the tag " + name + "."
	case authorPage:
		if d.Author == nil {
			return nil, errNotFound
		}
		p.Author, name = d.Author, d.Author.Username
		p.Posts, p.Next = d.Author.Posts.posts(), d.Author.Posts.PageInfo.next()
		p.Title, p.Heading, p.Type = d.Author.DisplayName, d.Author.DisplayName, "profile"
		if p.Description = d.Author.Bio; p.Description == "" {
			p.Description = "Posts of " + d.Author.DisplayName + "."
		}
	}
	if name != value {
		return &rendered{status: http.StatusMovedPermanently, location: withAfter(s.pathOf(of, name), after)}, nil
	}
	p.Indexed, p.Canonical = true, s.url+withAfter(address, after)
	p.Feed = s.url + strings.TrimSuffix(address, "/") + "/feed.atom"
	if of == postPage {
		p.Feed = s.url + "/feed.atom"
		p.Markdown, p.OEmbed = p.Canonical+".md", s.oEmbedOf(p.Canonical)
	}
	if p.Next != "" {
		p.Next = s.url + withAfter(address, p.Next)
	}
	p.Linked = s.linked(p)
	return &rendered{page: p, status: http.StatusOK}, nil
}

// next returns the cursor of the next page, "" at the end.
func (i pageInfo) next() string {
	if !i.HasNextPage {
		return ""
	}
	return i.EndCursor
}

// whyNoPost returns errGone for a post that was deleted, as long as that is known, and else errNotFound.
func (s *Site) whyNoPost(r *http.Request, slug string) error {
	deleted, err := s.deleted(r.Context(), slug)
	if err == nil && deleted {
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
	return linkedGraph(o)
}
