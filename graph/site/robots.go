package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// serveRobots serves robots.txt: crawlers may read all but the pages for users. Those that execute scripts need
// GraphQL.
func (s *Site) serveRobots(m manifest) http.HandlerFunc {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, r := range m.Routes {
		if r.Page == "" && !strings.Contains(r.Path, ":") {
			b.WriteString("Disallow: " + r.Path + "$\n")
		}
	}
	b.WriteString("Allow: /\n\nSitemap: " + s.url + "/sitemap.xml\n")
	text := b.String()
	return func(w http.ResponseWriter, r *http.Request) { writeText(w, r, "text/plain", text, "") }
}

// serveLLMs serves llms.txt, which tells language models what there is.
func (s *Site) serveLLMs(w http.ResponseWriter, r *http.Request) {
	post := s.url + strings.Replace(s.routes[postPage].Path, ":slug", "SLUG", 1)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n> A blog. Every page is HTML; a post is also Markdown.\n\n", s.shell.title)
	fmt.Fprintf(&b, "- [The newest posts](%s)\n", s.url+s.pathOf(frontPage, ""))
	fmt.Fprintf(&b, "- [Full texts as an Atom feed](%s/feed.atom): each page links to the next\n", s.url)
	fmt.Fprintf(&b, "- [All posts](%s/sitemap.xml): a sitemap for each month\n", s.url)
	fmt.Fprintf(&b, "- A post as Markdown: %s.md\n", post)
	fmt.Fprintf(&b, "- [GraphQL](%s%s): posts, authors, tags, comments and likes\n", s.url, s.gateway.path)
	writeText(w, r, "text/plain", b.String(), "")
}

// serveMarkdown serves the source of a post, after front matter in YAML.
func (s *Site) serveMarkdown(w http.ResponseWriter, r *http.Request, slug string) {
	got, err := s.gateway.query(r, documentID("markdown"), variablesOf(postPage, slug, ""))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	d, err := got.data()
	if err == nil && (d.Post == nil || d.Post.Content == nil) {
		err = s.whyNoPost(r, slug)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	p := d.Post
	address := s.pathOf(postPage, p.Slug)
	if p.Slug != slug {
		redirect(w, r, address+".md", got.age)
		return
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	for _, field := range []struct {
		name  string
		value any
	}{{"title", p.Title}, {"author", p.Author.DisplayName}, {"date", p.CreatedAt}, {"updated", p.updated()},
		{"tags", p.Tags}, {"url", s.url + address}} {
		value, err := json.Marshal(field.value) // JSON is YAML
		if err != nil {
			s.fail(w, r, err)
			return
		}
		fmt.Fprintf(&b, "%s: %s\n", field.name, value)
	}
	b.WriteString("---\n\n" + *p.Content)
	if got.tag != "" {
		w.Header().Set("Cache-Control", got.age)
	}
	writeText(w, r, "text/markdown", b.String(), s.tagOf(got))
}

// oEmbedOf returns the address of the oEmbed response for an address.
func (s *Site) oEmbedOf(address string) string {
	return s.url + "/oembed?" + url.Values{"url": {address}}.Encode()
}

// serveOEmbed serves what other sites need to link to a post (https://oembed.com): its type is link.
func (s *Site) serveOEmbed(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if format := q.Get("format"); format != "" && format != "json" {
		http.Error(w, "only the format json is supported", http.StatusNotImplemented)
		return
	}
	slug, ok := s.slugOf(q.Get("url"))
	if !ok {
		s.fail(w, r, errNotFound)
		return
	}
	got, err := s.gateway.query(r, documentID(string(postPage)), variablesOf(postPage, slug, ""))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	d, err := got.data()
	if err == nil && d.Post == nil {
		err = s.whyNoPost(r, slug)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	embed := object{"version": "1.0", "type": "link", "title": d.Post.Title, "provider_name": s.shell.title,
		"provider_url": s.url, "cache_age": 300}
	if author := d.Post.Author; author.Username != "" {
		embed["author_name"], embed["author_url"] = author.DisplayName, s.url+s.pathOf(authorPage, author.Username)
	}
	body, err := json.Marshal(embed)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeText(w, r, "application/json", string(body), "")
}

// slugOf returns the slug of the post at an address of the site.
func (s *Site) slugOf(address string) (string, bool) {
	prefix, suffix, _ := strings.Cut(s.url+s.routes[postPage].Path, ":slug")
	rest, ok := strings.CutPrefix(address, prefix)
	if !ok {
		return "", false
	}
	escaped, ok := strings.CutSuffix(rest, suffix)
	slug, err := url.PathUnescape(escaped)
	return slug, ok && err == nil && slug != "" && !strings.Contains(slug, "/")
}
