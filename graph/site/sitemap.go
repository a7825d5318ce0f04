package site

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// maxSitemap is how many posts a sitemap has at most. The protocol allows 50,000.
const maxSitemap = 10_000

// sitemapIndex lists sitemaps (https://www.sitemaps.org/protocol.html).
type sitemapIndex struct {
	XMLName  xml.Name     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemapindex"`
	Sitemaps []sitemapLoc `xml:"sitemap"`
}

// sitemap lists addresses of posts.
type sitemap struct {
	XMLName xml.Name     `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	URLs    []sitemapLoc `xml:"url"`
}

type sitemapLoc struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod,omitempty"`
}

// serveSitemap serves the index of the sitemaps or, with the parameter month, a sitemap: the posts of that month, of
// which each maxSitemap, the newest first, are a part. The other pages are reached by links from posts.
func (s *Site) serveSitemap(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !q.Has("month") {
		s.serveSitemapIndex(w, r)
		return
	}
	part, err := 1, error(nil)
	if q.Has("part") {
		part, err = strconv.Atoi(q.Get("part"))
	}
	if err != nil || part < 1 {
		s.fail(w, r, errNotFound)
		return
	}
	urls, of, err := s.sitemapURLs(r, q.Get("month"), part)
	if err == nil && len(urls) == 0 {
		err = errNotFound
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.writeSitemap(w, r, sitemap{URLs: urls}, of...)
}

// serveSitemapIndex serves the addresses of the sitemaps. When a post of a month was edited last is not known without
// reading all of them, so there is no lastmod.
func (s *Site) serveSitemapIndex(w http.ResponseWriter, r *http.Request) {
	got, err := s.gateway.query(r, documentID("months"), nil)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	d, err := got.data()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var index sitemapIndex
	for _, m := range d.Months {
		at := s.url + "/sitemap.xml?month=" + url.QueryEscape(m.Month)
		index.Sitemaps = append(index.Sitemaps, sitemapLoc{Loc: at})
		for part := 2; (part-1)*maxSitemap < m.PostCount; part++ {
			index.Sitemaps = append(index.Sitemaps, sitemapLoc{Loc: fmt.Sprintf("%s&part=%d", at, part)})
		}
	}
	s.writeSitemap(w, r, index, got)
}

// sitemapURLs reads the addresses of a part of a month, and returns the responses that it was made from: each page of
// posts is an operation of its own, so that a part may cost more than one operation may. A later part reads the pages
// before it, too, which are cached if no post of the month has changed since. A part that began at a cursor would not
// have to; but cursors in the index would make the index read all pages of a month whenever one changes.
func (s *Site) sitemapURLs(r *http.Request, month string, part int) (urls []sitemapLoc, of []result, err error) {
	from, to := (part-1)*maxSitemap, part*maxSitemap
	for n, after := 0, ""; ; {
		variables := map[string]string{"month": month, "after": after}
		got, err := s.gateway.query(r, documentID("sitemap"), variables)
		if err != nil {
			return nil, nil, err
		}
		d, err := got.data()
		if err != nil {
			return nil, nil, err
		}
		of = append(of, got)
		for _, p := range d.Posts.posts() {
			if n++; n > from && n <= to {
				urls = append(urls, sitemapLoc{s.url + s.pathOf(postPage, p.Slug), p.updated()})
			}
		}
		if after = d.Posts.PageInfo.next(); after == "" || n >= to {
			return urls, of, nil
		}
	}
}

// writeSitemap sends a sitemap, or the index.
func (s *Site) writeSitemap(w http.ResponseWriter, r *http.Request, content any, of ...result) {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	if err := xml.NewEncoder(&b).Encode(content); err != nil {
		s.fail(w, r, err)
		return
	}
	tag, age := s.tagOf(of...), "no-cache"
	if tag != "" {
		age = of[0].age
		for _, got := range of[1:] {
			age = shorter(age, got.age)
		}
	}
	w.Header().Set("Cache-Control", age)
	writeText(w, r, "application/xml", b.String(), tag)
}
