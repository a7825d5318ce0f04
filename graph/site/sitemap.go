package site

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
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

// sitemap renders the index of the sitemaps or, with the parameter month, a sitemap: the posts of that month, of which
// each perSitemap, the newest first, are a part. Those with a canonical address elsewhere are left out. The other pages
// are reached by links from posts.
func (s *Site) sitemap(r *http.Request, q url.Values) (*rendered, error) {
	if !q.Has("month") {
		return s.sitemapIndex(r)
	}
	part, err := 1, error(nil)
	if q.Has("part") {
		part, err = strconv.Atoi(q.Get("part"))
	}
	if err != nil || part < 1 {
		return nil, errNotFound
	}
	urls, of, err := s.sitemapURLs(r, q.Get("month"), part)
	if err != nil {
		return nil, err
	}
	return renderXML(mediaXML, urlset{URLs: urls}, of...)
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
		for part := 2; (part-1)*s.perSitemap < m.PostCount; part++ {
			index.Sitemaps = append(index.Sitemaps, sitemapLoc{Loc: fmt.Sprintf("%s&part=%d", at, part)})
		}
	}
	return renderXML(mediaXML, index, got)
}

// sitemapURLs reads the addresses of a part of a month, which has posts, and returns the responses that it was made from: each page of
// posts is an operation of its own, so that a part may cost more than one operation may. A later part reads the pages
// before it, too, which are cached if no post of the month has changed since. A part that began at a cursor would not
// have to; but cursors in the index would make the index read all pages of a month whenever one changes.
func (s *Site) sitemapURLs(
	r *http.Request, month string, part int,
) (urls []sitemapLoc, of []*transport.Response, err error) {
	from, to := (part-1)*s.perSitemap, part*s.perSitemap
	for n, after := 0, ""; ; {
		got, d, err := s.query(r, "sitemap", map[string]string{"month": month, "after": after})
		if err != nil {
			return nil, nil, err
		}
		of = append(of, got)
		for _, p := range d.Posts.posts() {
			if n++; n > from && n <= to && p.CanonicalURL == "" { // search engines find the others where they belong
				urls = append(urls, sitemapLoc{s.url + s.pathOf(postPage, p.Slug), p.updated()})
			}
		}
		if after = d.Posts.PageInfo.next(); after == "" && n <= from {
			return nil, nil, errNotFound
		} else if after == "" || n >= to {
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
