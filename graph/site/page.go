package site

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"time"

	"byline/store/blog"
)

// page is what a template renders.
type page struct {
	site *Site

	Blog        string // its title
	Title       string // "" on the front page
	Heading     string
	Description string
	Canonical   string // absolute, as all addresses in the head
	URL         string // of the site, before paths
	Next        string // the path of the following page of a list
	Feed        string
	Markdown    string
	OEmbed      string
	Type        string // of Open Graph
	Indexed     bool   // crawlers may list it
	ForUsers    bool   // the front end alone shows it
	Linked      any    // JSON-LD
	Inlined     *inlined

	// What it shows: one of them, or nothing of the blog.
	Front   *data
	Post    *post
	Tag     *tag
	Author  *author
	Results *results
	Posts   []post // of a list
}

// inlined is the response that the front end would request first.
type inlined struct {
	Document  string
	Variables string // JSON
	Response  json.RawMessage
}

//go:embed page.html
var pageHTML string

var pageTemplates = template.Must(template.New("page").Parse(pageHTML))

// render returns the page as HTML.
func (p *page) render(s shell) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(s.start)
	if err := pageTemplates.ExecuteTemplate(&b, "head", p); err != nil {
		return nil, err
	}
	b.WriteString(s.middle)
	if err := pageTemplates.ExecuteTemplate(&b, "content", p); err != nil {
		return nil, err
	}
	b.WriteString(s.end)
	return b.Bytes(), nil
}

// Search returns the post that a page is of, with its texts for search engines and link previews, or an empty one.
func (p *page) Search() post {
	if p.Post == nil {
		return post{}
	}
	return *p.Post
}

// Path returns the path of a page of the front end.
func (p *page) Path(page kind, value string) string { return p.site.pathOf(page, value) }

// AuthorURL returns the absolute address of an author.
func (p *page) AuthorURL(a author) string { return p.site.url + p.site.pathOf(authorPage, a.Username) }

// Absolute returns the absolute address of a picture.
func (p *page) Absolute(address string) string { return p.site.absolute(address) }

// coverOfPage is a cover on a page, for its template.
type coverOfPage struct {
	*cover
	First bool // readers see it before they scroll
}

// Cover returns the cover of the n-th post of a page.
func (p *page) Cover(n int, of *cover) coverOfPage { return coverOfPage{of, n == 0} }

// Day returns the date of a moment.
func (p *page) Day(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return t.UTC().Format("2 Jan 2006")
}

// Count returns how many there are of what a noun names, such as "2 posts".
func (p *page) Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

// cutExcerpt is an excerpt that the gateway has cut, between words, as the front end recognizes it.
var cutExcerpt = regexp.MustCompile(`(?s)^.{240,}[\p{L}\p{N},;:]$`)

// IsCut reports whether the text of a post goes on after its excerpt.
func (p *page) IsCut(excerpt string) bool { return cutExcerpt.MatchString(excerpt) }

// Text returns the text of a post. The gateway has sanitized it.
func (p *page) Text(of *post) template.HTML {
	if of.ContentHTML == nil {
		return ""
	}
	return template.HTML(*of.ContentHTML)
}

// postOfPage is a post on a page, for templates that need both.
type postOfPage struct {
	Page *page
	Post *post
}

// WithAuthor returns a post with its page.
func (p *page) WithAuthor(of any) (postOfPage, error) {
	switch of := of.(type) {
	case *post:
		return postOfPage{p, of}, nil
	case post:
		return postOfPage{p, &of}, nil
	}
	return postOfPage{}, fmt.Errorf("%T is no post", of)
}

// linkedContext is the vocabulary of JSON-LD.
const linkedContext = "https://schema.org"

type object map[string]any

// linkedPost is a BlogPosting.
func (s *Site) linkedPost(p *post) object {
	o := object{"@type": "BlogPosting", "headline": p.Title, "description": p.Excerpt,
		"url": s.url + s.pathOf(postPage, p.Slug), "datePublished": p.CreatedAt, "dateModified": p.updated(),
		"commentCount": p.CommentCount}
	if p.Author.Username != "" {
		o["author"] = s.linkedAuthor(&p.Author)
	}
	if len(p.Tags) > 0 {
		o["keywords"] = p.Tags
	}
	if p.CoverImage != nil {
		o["image"] = s.linkedCover(p.CoverImage)
	}
	return o
}

// linkedAuthor is a Person.
func (s *Site) linkedAuthor(a *author) object {
	o := object{"@type": "Person", "name": a.DisplayName, "alternateName": a.Username,
		"url": s.url + s.pathOf(authorPage, a.Username)}
	if a.Bio != "" {
		o["description"] = a.Bio
	}
	if _, ok := blog.FileOf(a.AvatarURL); ok || strings.HasPrefix(a.AvatarURL, "https://") {
		o["image"] = s.absolute(a.AvatarURL)
	}
	return o
}

// linkedCover is an ImageObject.
func (s *Site) linkedCover(c *cover) object {
	o := object{"@type": "ImageObject", "url": s.absolute(c.URL)}
	if c.Alt != "" {
		o["caption"] = c.Alt
	}
	if c.hasSize() {
		o["width"], o["height"] = fmt.Sprint(c.Width, " px"), fmt.Sprint(c.Height, " px") // a Distance has a unit
	}
	return o
}

// linkedPosts are the posts of a list, briefly.
func (s *Site) linkedPosts(all []post) (linked []object) {
	for i := range all {
		linked = append(linked, s.linkedPost(&all[i]))
	}
	return linked
}

// linkedBlog is the Blog.
func (s *Site) linkedBlog() object {
	return object{"@type": "Blog", "name": s.shell.title, "url": s.url + s.pathOf(frontPage, "")}
}

// linkedSearch is the WebSite, with how to search it.
func (s *Site) linkedSearch() object {
	return object{"@type": "WebSite", "name": s.shell.title, "url": s.url + s.pathOf(frontPage, ""),
		"potentialAction": object{"@type": "SearchAction", "query-input": "required name=search_term_string",
			"target": object{"@type": "EntryPoint",
				"urlTemplate": s.url + s.pathOf(searchPage, "") + "?q={search_term_string}"}}}
}

// breadcrumbs are the BreadcrumbList of a page below the front page.
func (s *Site) breadcrumbs(name, address string) object {
	item := func(position int, name, address string) object {
		return object{"@type": "ListItem", "position": position, "name": name, "item": address}
	}
	return object{"@type": "BreadcrumbList", "itemListElement": []object{
		item(1, s.shell.title, s.url+s.pathOf(frontPage, "")),
		item(2, name, address),
	}}
}

// graph is the JSON-LD of several objects.
func linkedGraph(objects ...object) object {
	return object{"@context": linkedContext, "@graph": objects}
}

// withAfter returns an address of a page of a list that begins after a cursor.
func withAfter(address, after string) string {
	if after == "" {
		return address
	}
	return address + "?" + url.Values{"after": {after}}.Encode()
}
