package site

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"time"

	"byline/store/blog"
)

// atomFeed is an Atom feed (RFC 4287) of which each page has a link to the next (RFC 5005, section 3).
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Base    string      `xml:"xml:base,attr"` // of relative addresses in texts
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel    string `xml:"rel,attr"`
	Type   string `xml:"type,attr,omitempty"`
	Href   string `xml:"href,attr"`
	Title  string `xml:"title,attr,omitempty"`
	Length int64  `xml:"length,attr,omitempty"` // bytes
}

type atomEntry struct {
	ID         string         `xml:"id"`
	Title      string         `xml:"title"`
	Links      []atomLink     `xml:"link"`
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

// feed renders the feed of the posts of a page.
func (s *Site) feed(of route) renderer {
	return func(r *http.Request, q url.Values) (*rendered, error) {
		value, after := r.PathValue(parameters[of.Page]), q.Get("after")
		got, d, err := s.query(r, string(of.Page)+"feed", variablesOf(of.Page, value, after))
		if err != nil {
			return nil, err
		}
		title, present, list := s.shell.title, value, d.Posts
		switch {
		case of.Page == tagPage && d.Tag != nil && (after != "" || len(d.Tag.Posts.Edges) > 0):
			title, present, list = "#"+d.Tag.Name+" · "+title, d.Tag.Name, d.Tag.Posts
		case of.Page == authorPage && d.Author != nil:
			title, present, list = d.Author.DisplayName+" · "+title, d.Author.Username, d.Author.Posts
		case of.Page != frontPage:
			return nil, errNotFound
		}
		address := s.pathOf(of.Page, present)
		path := strings.TrimSuffix(address, "/") + "/feed.atom"
		if present != value {
			return redirectTo(withAfter(path, after), got), nil
		}
		feed := s.newFeed(title, address, list.posts())
		feed.Links = []atomLink{{Rel: "alternate", Type: "text/html", Href: s.url + address},
			{Rel: "self", Type: atomType, Href: s.url + withAfter(path, after)},
			{Rel: "first", Type: atomType, Href: s.url + path}}
		if next := list.PageInfo.next(); next != "" {
			feed.Links = append(feed.Links, atomLink{Rel: "next", Type: atomType, Href: s.url + withAfter(path, next)})
		}
		p, err := renderXML(mediaAtom, feed, got)
		if err == nil {
			p.modified, err = time.Parse(time.RFC3339, feed.Updated)
		}
		return p, err
	}
}

const atomType = "application/atom+xml"

// newFeed returns the feed of the page with an address.
func (s *Site) newFeed(title, address string, posts []post) *atomFeed {
	feed := &atomFeed{Base: s.url + "/", ID: s.url + address, Title: valid(title), Updated: time.Unix(0, 0).UTC().Format(time.RFC3339)}
	for i := range posts {
		p := &posts[i]
		if p.ContentHTML == nil {
			continue // it was deleted a moment ago
		}
		e := atomEntry{ID: s.entryID(p), Title: valid(p.Title), Published: p.CreatedAt, Updated: p.updated(),
			Links:   []atomLink{{Rel: "alternate", Type: "text/html", Href: s.url + s.pathOf(postPage, p.Slug)}},
			Summary: valid(p.Excerpt), Content: atomContent{"html", valid(*p.ContentHTML)}, Author: &atomAuthor{Name: "a former member"}}
		if p.Author.Username != "" {
			e.Author = &atomAuthor{valid(p.Author.DisplayName), s.url + s.pathOf(authorPage, p.Author.Username)}
		}
		if p.CoverImage != nil {
			e.Links = append(e.Links, s.enclosure(p.CoverImage))
		}
		for _, t := range p.Tags {
			e.Categories = append(e.Categories, atomCategory{valid(t)})
		}
		feed.Updated = max(feed.Updated, e.Updated)
		feed.Entries = append(feed.Entries, e)
	}
	return feed
}

// enclosure returns the link to a cover. Type and length, which are hints, are known of files of this server alone.
func (s *Site) enclosure(c *cover) atomLink {
	l := atomLink{Rel: "enclosure", Href: s.absolute(c.URL), Title: valid(c.Alt)}
	if file, ok := blog.FileOf(c.URL); ok {
		l.Type, l.Length = file.Type(), file.Size()
	}
	return l
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
