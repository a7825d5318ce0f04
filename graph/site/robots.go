package site

import (
	"fmt"
	"strings"

	"byline/graph/transport"
)

// robots returns robots.txt: crawlers may read all but the pages for users. Those that execute scripts need GraphQL.
func (s *Site) robots(m manifest) string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, r := range m.Routes {
		if r.Page == "" && !strings.Contains(r.Path, ":") {
			b.WriteString("Disallow: " + r.Path + "$\n")
		}
	}
	b.WriteString("Allow: /\n\nSitemap: " + s.url + "/sitemap.xml\n")
	return b.String()
}

// llms returns llms.txt, which tells language models what there is.
func (s *Site) llms() string {
	post := s.url + strings.Replace(s.routes[postPage].Path, ":slug", "SLUG", 1)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n> A blog. Every page is HTML; a post is also Markdown.\n\n", s.shell.title)
	fmt.Fprintf(&b, "- [The newest posts](%s)\n", s.url+s.pathOf(frontPage, ""))
	fmt.Fprintf(&b, "- [Full texts as an Atom feed](%s/feed.atom): each page links to the next\n", s.url)
	fmt.Fprintf(&b, "- [All posts](%s/sitemap.xml): a sitemap for each month\n", s.url)
	if path := s.routes[searchPage].Path; path != "" {
		fmt.Fprintf(&b, "- Search: %s%s?q=WORDS\n", s.url, path)
	}
	fmt.Fprintf(&b, "- A post as Markdown: %s.md\n", post)
	fmt.Fprintf(&b, "- [GraphQL](%s%s): posts, authors, tags, comments and likes\n", s.url, transport.Path)
	return b.String()
}
