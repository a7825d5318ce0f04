package site

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"
)

// rendered is a page as it is sent.
type rendered struct {
	page     *page     // before it is rendered; nil for a redirect
	location string    // of a redirect
	made     [2]string // the entity tags of the responses that it is made of
	tag      string    // its entity tag
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
func (s *Site) newPage() *page {
	return &page{site: s, Blog: s.shell.title, URL: s.url, Type: "website"}
}

// pageOf serves the page of a route.
func (s *Site) pageOf(of route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, after := r.PathValue(parameters[of.Page]), r.URL.Query().Get("after")
		if of.Page == postPage {
			after = "" // it is no list
			if slug, ok := strings.CutSuffix(value, ".md"); ok {
				s.serveMarkdown(w, r, slug)
				return
			}
		}
		p, age, err := s.find(r, of, value, after)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.write(w, r, p, age)
	}
}

// pageKey identifies a page.
type pageKey struct {
	page         kind
	value, after string
}

// find returns a page, and for how long it may be cached: the one that was rendered before, while its responses are the
// same.
func (s *Site) find(r *http.Request, of route, value, after string) (*rendered, string, error) {
	variables := variablesOf(of.Page, value, after)
	got, err := s.gateway.query(r, documentID(string(of.Page)), variables)
	if err != nil {
		return nil, "", err
	}
	first, inlined := s.first(r, of, variables, after)
	made, age := [2]string{got.tag, first.tag}, shorter(got.age, first.age)
	cacheable := got.tag != "" && (inlined == nil || first.tag != "")
	if !cacheable {
		age = "no-cache"
	}
	key := pageKey{of.Page, value, after}
	if s.pages != nil && cacheable {
		if known, ok := s.pages.GetIfPresent(key); ok && known.made == made {
			return known, age, nil
		}
	}
	p, err := s.show(r, of.Page, value, after, got)
	if err != nil {
		return nil, "", err
	}
	if p.made = made; cacheable {
		p.tag = s.tagOf(got, first)
	}
	if p.page != nil {
		p.page.Inlined = inlined
		if p.body, err = p.page.render(s.shell); err != nil {
			return nil, "", err
		}
		p.page = nil
	}
	if s.pages != nil && cacheable {
		s.pages.Set(key, p)
	}
	return p, age, nil
}

// first returns the response that the front end would request first. Without it the page is complete, but for a request
// of the front end: so an error is logged.
func (s *Site) first(r *http.Request, of route, variables map[string]string, after string) (result, *inlined) {
	if of.Document == "" || after != "" {
		return result{}, nil
	}
	all := map[string]any{}
	maps.Copy(all, of.Variables)
	for name, value := range variables {
		all[name] = value
	}
	got, err := s.gateway.query(r, of.Document, all)
	var text []byte
	if err == nil {
		text, err = json.Marshal(all)
	}
	if err != nil {
		s.log.Warn("page without the response to its document", "path", r.URL.Path, "document", of.Document,
			"error", err)
		return result{}, nil
	}
	return got, &inlined{Document: of.Document, Variables: string(text), Response: got.body}
}

// tagOf returns the entity tag of what is made of responses; "" if one of them must not be cached.
func (s *Site) tagOf(of ...result) string {
	all := s.url + s.shell.version
	for _, r := range of {
		if r.tag == "" && r.body != nil {
			return ""
		}
		all += " " + r.tag
	}
	sum := sha256.Sum256([]byte(all))
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// shorter returns the Cache-Control of two that expires first. The gateway writes all alike; "" stands for no response.
func shorter(a, b string) string {
	if b == "" || len(a) < len(b) || len(a) == len(b) && a < b {
		return a
	}
	return b
}

// redirect responds that a page has moved. Names and titles may change again.
func redirect(w http.ResponseWriter, r *http.Request, location, age string) {
	if age == "" {
		age = "no-cache"
	}
	w.Header().Set("Cache-Control", age)
	http.Redirect(w, r, location, http.StatusMovedPermanently)
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
func (s *Site) write(w http.ResponseWriter, r *http.Request, p *rendered, age string) {
	if p.location != "" {
		redirect(w, r, p.location, age)
		return
	}
	w.Header().Set("Cache-Control", age)
	p.body.write(w, r, http.StatusOK, p.tag)
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
		return &rendered{location: withAfter(s.pathOf(of, name), after)}, nil
	}
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
	return &rendered{page: p}, nil
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
		return &queryError{code: "UNAVAILABLE", message: err.Error()}
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
	return linkedGraph(o)
}
