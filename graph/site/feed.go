package site

import (
	"bytes"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// atomFeed is an Atom feed (RFC 4287) of which each page has a link to the next (RFC 5005, section 3).
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID         string         `xml:"id"`
	Title      string         `xml:"title"`
	Link       atomLink       `xml:"link"`
	Published  string         `xml:"published"`
	Updated    string         `xml:"updated"`
	Author     *atomAuthor    `xml:"author"`
	Categories []atomCategory `xml:"category"`
	Summary    string         `xml:"summary"`
	Content    atomContent    `xml:"content"`
}

type atomAuthor struct {
	Name string `xml:"name"`
	URI  string `xml:"uri,omitempty"`
}

type atomCategory struct {
	Term string `xml:"term,attr"`
}

type atomContent struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

// serveFeed serves the feed of the posts of a page.
func (s *Site) serveFeed(of route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, after := r.PathValue(parameters[of.Page]), r.URL.Query().Get("after")
		got, err := s.gateway.query(r, documentID(string(of.Page)+"feed"), variablesOf(of.Page, value, after))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		d, err := got.data()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		title, name, list := s.shell.title, value, d.Posts
		switch {
		case of.Page == tagPage && d.Tag != nil && len(d.Tag.Posts.Edges) > 0:
			title, name, list = "#"+d.Tag.Name+" · "+title, d.Tag.Name, d.Tag.Posts
		case of.Page == authorPage && d.Author != nil:
			title, name, list = d.Author.DisplayName+" · "+title, d.Author.Username, d.Author.Posts
		case of.Page != frontPage:
			s.fail(w, r, errNotFound)
			return
		}
		if tag := s.tagOf(got); tag != "" && matches(r.Header.Values("If-None-Match"), tag) && name == value {
			w.Header().Set("ETag", tag)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		address := s.pathOf(of.Page, name)
		feedPath := strings.TrimSuffix(address, "/") + "/feed.atom"
		if name != value {
			redirect(w, r, withAfter(feedPath, after), got.age)
			return
		}
		feed := s.feed(title, address, list.posts())
		feed.Links = []atomLink{{"alternate", "text/html", s.url + address},
			{"self", atomType, s.url + withAfter(feedPath, after)}, {"first", atomType, s.url + feedPath}}
		if next := list.PageInfo.next(); next != "" {
			feed.Links = append(feed.Links, atomLink{"next", atomType, s.url + withAfter(feedPath, next)})
		}
		s.writeFeed(w, r, feed, got)
	}
}

const atomType = "application/atom+xml"

// feed returns the feed of the page with an address.
func (s *Site) feed(title, address string, posts []post) *atomFeed {
	feed := &atomFeed{ID: s.url + address, Title: valid(title), Updated: time.Unix(0, 0).UTC().Format(time.RFC3339)}
	for i := range posts {
		p := &posts[i]
		e := atomEntry{ID: s.entryID(p), Title: valid(p.Title), Published: p.CreatedAt, Updated: p.updated(),
			Link:    atomLink{"alternate", "text/html", s.url + s.pathOf(postPage, p.Slug)},
			Summary: valid(p.Excerpt), Content: atomContent{Type: "html"}, Author: &atomAuthor{Name: "a former member"}}
		if p.Author.Username != "" {
			e.Author = &atomAuthor{valid(p.Author.DisplayName), s.url + s.pathOf(authorPage, p.Author.Username)}
		}
		for _, t := range p.Tags {
			e.Categories = append(e.Categories, atomCategory{valid(t)})
		}
		if p.ContentHTML != nil {
			e.Content.Text = valid(*p.ContentHTML)
		}
		feed.Updated = max(feed.Updated, e.Updated)
		feed.Entries = append(feed.Entries, e)
	}
	return feed
}

// entryID returns an id that stays when the title changes, as a tag URI (RFC 4151).
func (s *Site) entryID(p *post) string {
	at, _ := url.Parse(s.url) // New has checked it
	day, _, _ := strings.Cut(p.CreatedAt, "T")
	return "tag:" + at.Hostname() + "," + day + ":" + p.ID
}

// valid returns a text without the characters that XML cannot have.
func valid(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r != '\uFFFE' && r != '\uFFFF' {
			return r
		}
		return -1
	}, text)
}

func (s *Site) writeFeed(w http.ResponseWriter, r *http.Request, feed *atomFeed, of result) {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	if err := xml.NewEncoder(&b).Encode(feed); err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if of.tag != "" {
		h.Set("Cache-Control", of.age)
	}
	if updated, err := time.Parse(time.RFC3339, feed.Updated); err == nil {
		h.Set("Last-Modified", updated.UTC().Format(http.TimeFormat))
	}
	writeText(w, r, atomType, b.String(), s.tagOf(of))
}
