package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// markdownOr serves the Markdown of a post at its path with .md, and otherwise its page.
func (s *Site) markdownOr(page http.Handler) http.Handler {
	markdown := s.rendering("markdown", s.markdown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.PathValue(parameters[postPage]), ".md") {
			markdown.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// markdown renders the source of a post, after front matter in YAML.
func (s *Site) markdown(r *http.Request, _ url.Values) (*rendered, error) {
	slug := strings.TrimSuffix(r.PathValue(parameters[postPage]), ".md")
	got, d, err := s.query(r, "markdown", variablesOf(postPage, slug, ""))
	if err != nil {
		return nil, err
	}
	p := d.Post
	if p == nil || p.Content == nil {
		return nil, s.whyNoPost(r, slug)
	}
	address := s.pathOf(postPage, p.Slug)
	if p.Slug != slug {
		return redirectTo(address+".md", got), nil
	}
	type field struct {
		name  string
		value any
	}
	fields := []field{{"title", p.Title}, {"author", p.Author.DisplayName}, {"date", p.CreatedAt},
		{"updated", p.updated()}, {"tags", p.Tags}, {"url", s.url + address}}
	if c := p.CoverImage; c != nil {
		fields = append(fields, field{"cover", s.absolute(c.URL)}, field{"coverAlt", c.Alt})
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	for _, field := range fields {
		value, err := json.Marshal(field.value) // JSON is YAML
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s: %s\n", field.name, value)
	}
	b.WriteString("---\n\n" + *p.Content)
	return newRendered(mediaMarkdown, b.Bytes(), got), nil
}

// oEmbedOf returns the address of the oEmbed response for an address.
func (s *Site) oEmbedOf(address string) string {
	return s.url + "/oembed?" + url.Values{"url": {address}}.Encode()
}

// inJSON refuses requests of other formats, as oEmbed requires.
func inJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if format := r.URL.Query().Get("format"); format != "" && format != "json" {
			http.Error(w, "only the format json is supported", http.StatusNotImplemented)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// oEmbed renders what other sites need to link to a post (https://oembed.com): its type is link.
func (s *Site) oEmbed(r *http.Request, q url.Values) (*rendered, error) {
	slug, ok := s.slugOf(q.Get("url"))
	if !ok {
		return nil, errNotFound
	}
	got, d, err := s.query(r, string(postPage), variablesOf(postPage, slug, ""))
	if err != nil {
		return nil, err
	}
	if d.Post == nil {
		return nil, s.whyNoPost(r, slug)
	}
	embed := object{"version": "1.0", "type": "link", "title": d.Post.Title, "provider_name": s.shell.title,
		"provider_url": s.url, "cache_age": 300}
	if author := d.Post.Author; author.Username != "" {
		embed["author_name"], embed["author_url"] = author.DisplayName, s.url+s.pathOf(authorPage, author.Username)
	}
	if c := d.Post.CoverImage; c != nil && c.hasSize() && fits(c.Width, q.Get("maxwidth")) &&
		fits(c.Height, q.Get("maxheight")) {
		embed["thumbnail_url"] = s.absolute(c.URL)
		embed["thumbnail_width"], embed["thumbnail_height"] = c.Width, c.Height
	}
	text, err := json.Marshal(embed)
	if err != nil {
		return nil, err
	}
	return newRendered(mediaJSON, text, got), nil
}

// fits reports whether a length is within a limit, "" for none.
func fits(pixels int, limit string) bool {
	most, err := strconv.Atoi(limit)
	return limit == "" || err == nil && pixels <= most
}

// slugOf returns the slug of the post at an address of the site, which may have a query.
func (s *Site) slugOf(address string) (string, bool) {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	rest, ok := strings.CutPrefix(address, strings.TrimSuffix(s.url+s.routes[postPage].Path, ":slug"))
	slug, err := url.PathUnescape(rest)
	return slug, ok && err == nil && slug != "" && !strings.Contains(slug, "/")
}
