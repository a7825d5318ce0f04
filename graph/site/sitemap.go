package site

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"byline/graph/transport"
)

// maxSitemap is perSitemap: how many posts a sitemap has at most. The protocol allows 50,000.
const maxSitemap = 10_000

// sitemapIndex lists sitemaps (https://www.sitemaps.org/protocol.html).
type sitemapIndex struct {
	XMLName  xml.Name     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemapindex"`
	Sitemaps []sitemapLoc `xml:"sitemap"`
}

// urlset lists addresses of posts.
type urlset struct {
	XMLName xml.Name     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	URLs    []sitemapLoc `xml:"url"`
}

type sitemapLoc struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod,omitempty"`
}

// sitemap renders the index of the sitemaps or, with the parameter month, a sitemap: the posts of that month, the
// newest first, in parts of perSitemap. Posts with a canonical address elsewhere are left out. Other pages are reached
// by links from posts.
func (s *Site) sitemap(r *http.Request, q url.Values) (*rendered, error) {
	if !q.Has("month") {
		return s.sitemapIndex(r)
	}
	got, d, err := s.query(r, "months", nil)
	if err != nil {
		return nil, err
	}
	part, err := strconv.Atoi(cmp.Or(q.Get("part"), "1"))
	i := slices.IndexFunc(d.Months, func(m month) bool { return m.Month == q.Get("month") })
	if err != nil || i < 0 || part < 1 || part > s.parts(d.Months[i]) {
		return nil, errNotFound
	}
	urls, of, err := s.sitemapURLs(r, d.Months[i].Month, part, part == s.parts(d.Months[i]))
	if err != nil {
		return nil, err
	}
	return renderXML(mediaXML, urlset{URLs: urls}, append(of, got)...)
}

// sitemapIndex renders the addresses of the sitemaps. When a post of a month was edited last is not known without
// reading all of them, so there is no lastmod.
func (s *Site) sitemapIndex(r *http.Request) (*rendered, error) {
	got, d, err := s.query(r, "months", nil)
	if err != nil {
		return nil, err
	}
	var index sitemapIndex
	for _, m := range d.Months {
		at := s.url + "/sitemap.xml?month=" + url.QueryEscape(m.Month)
		index.Sitemaps = append(index.Sitemaps, sitemapLoc{Loc: at})
		for part := 2; part <= s.parts(m); part++ {
			index.Sitemaps = append(index.Sitemaps, sitemapLoc{Loc: fmt.Sprintf("%s&part=%d", at, part)})
		}
	}
	return renderXML(mediaXML, index, got)
}

// parts returns how many sitemaps a month has.
func (s *Site) parts(m month) int { return (m.PostCount + s.perSitemap - 1) / s.perSitemap }

// sitemapURLs reads the addresses of a part of a month, the last with all the rest since counts may be a little wrong,
// and returns the responses that it was made from: each page of
// posts is an operation of its own, so that a part may cost more than one operation may. A later part reads the pages
// before it, too, which are cached if no post of the month has changed since. A part that began at a cursor would not
// have to; but cursors in the index would make the index read all pages of a month whenever one changes.
func (s *Site) sitemapURLs(
	r *http.Request, month string, part int, last bool,
) (urls []sitemapLoc, of []*transport.Response, err error) {
	from, to := (part-1)*s.perSitemap, part*s.perSitemap
	if last {
		to += s.perSitemap
	}
	for n, after := 0, ""; ; {
		got, d, err := s.query(r, "sitemap", map[string]string{"month": month, "after": after})
		if err != nil {
			return nil, nil, err
		}
		of = append(of, got)
		for _, p := range d.Posts.posts() {
			if n++; n > from && n <= to && p.CanonicalURL == "" {
				urls = append(urls, sitemapLoc{s.url + s.pathOf(postPage, p.Slug), p.updated()})
			}
		}
		if after = d.Posts.PageInfo.next(); after == "" || n >= to {
			return urls, of, nil
		}
	}
}

// renderXML returns the response with a document, made of responses.
func renderXML(media string, document any, of ...*transport.Response) (*rendered, error) {
	text, err := xml.Marshal(document)
	if err != nil {
		return nil, err
	}
	return newRendered(media, append([]byte(xml.Header), text...), of...), nil
}
