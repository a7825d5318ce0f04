package site

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"byline/store"
	"byline/store/files"
)

// upload uploads a picture of a user, 12 pixels wide and 7 high, and returns the path of its file and its size in
// bytes.
func upload(t *testing.T, to *files.Files, userID string) (path string, size int) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 12, 7))); err != nil {
		t.Fatal(err)
	}
	size = b.Len()
	u, err := to.CreateUpload(context.Background(), userID, "image/png", int64(size))
	if err != nil {
		t.Fatal(err)
	}
	r, w := httptest.NewRequest(u.Method, u.URL, &b), httptest.NewRecorder()
	for _, h := range u.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	if to.ServeHTTP(w, r); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return u.ID.Path(), size
}

// headOf returns what the head of a page has of its picture, by name or property, and the first object of its JSON-LD.
func headOf(t *testing.T, body string) (head map[string]string, linked map[string]any) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	head = map[string]string{}
	for n := range document.Descendants() {
		switch {
		case n.DataAtom == atom.Meta:
			name := attribute(n, "name") + attribute(n, "property")
			if name == "twitter:card" || strings.HasPrefix(name, "og:image") {
				head[name] = attribute(n, "content")
			}
		case n.DataAtom == atom.Script && attribute(n, "type") == "application/ld+json":
			var graph struct {
				Graph []map[string]any `json:"@graph"`
			}
			if err := json.Unmarshal([]byte(n.FirstChild.Data), &graph); err != nil {
				t.Fatal(err)
			}
			linked = graph.Graph[0]
		}
	}
	return head, linked
}

// newPicturesSite returns a site with uploads, its blog, in which ada is the user u1, and its files.
func newPicturesSite(t *testing.T) (*Site, *store.Store, *files.Files) {
	t.Helper()
	pictures, err := files.NewFolder(t.TempDir(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, blog := newTestSiteWith(t, testDir, newTestAccount(t), pictures)
	if _, err := blog.CreateUser(t.Context(), store.NewUser{ID: "u1", Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	return s, blog, pictures
}

// TestCover has a post's picture on everything that shows the post, with absolute addresses for other sites.
func TestCover(t *testing.T) {
	s, blog, pictures := newPicturesSite(t)
	file, size := upload(t, pictures, "u1")
	const elsewhere, hostile = "https://elsewhere.example/a.jpg?x=1&y=2", `"><script>alert(1)</script>`
	for name, tt := range map[string]struct {
		cover, alt string
		head       map[string]string
		image      any // of JSON-LD
		enclosure  *atomLink
		front      string // lines of the front matter
		thumbnail  []any
		img        string // on the page of the post
	}{
		"a file": {cover: file, alt: hostile,
			head: map[string]string{"og:image": "https://blog.example" + file, "og:image:width": "12",
				"og:image:height": "7", "og:image:alt": hostile, "twitter:card": "summary_large_image"},
			image: map[string]any{"@type": "ImageObject", "url": "https://blog.example" + file, "caption": hostile,
				"width": "12 px", "height": "7 px"},
			enclosure: &atomLink{Rel: "enclosure", Type: "image/png", Href: "https://blog.example" + file, Title: hostile,
				Length: int64(size)},
			front:     "cover: \"https://blog.example" + file + "\"\ncoverAlt: \"\\\"\\u003e\\u003cscript\\u003ealert(1)\\u003c/script\\u003e\"\n",
			thumbnail: []any{"https://blog.example" + file, 12.0, 7.0},
			img:       `<img class="cover" src="` + file + `" alt="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;" width="12" height="7" fetchpriority="high">`},
		"on another server": {cover: elsewhere,
			head:      map[string]string{"og:image": elsewhere, "twitter:card": "summary_large_image"},
			image:     map[string]any{"@type": "ImageObject", "url": elsewhere},
			enclosure: &atomLink{Rel: "enclosure", Href: elsewhere},
			front:     "cover: \"https://elsewhere.example/a.jpg?x=1\\u0026y=2\"\ncoverAlt: \"\"\n",
			thumbnail: []any{nil, nil, nil},
			img:       `<img class="cover" src="https://elsewhere.example/a.jpg?x=1&amp;y=2" alt="" fetchpriority="high">`},
		"none": {head: map[string]string{"twitter:card": "summary"}, thumbnail: []any{nil, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := blog.CreatePost(t.Context(), store.NewPost{AuthorID: "u1", Title: name, Content: "x", CoverURL: tt.cover, CoverAlt: tt.alt})
			if err != nil {
				t.Fatal(err)
			}
			path := "/posts/" + p.Slug()
			body := get(s, path).Body.String()
			head, linked := headOf(t, body)
			if diff := cmp.Diff(tt.head, head); diff != "" {
				t.Errorf("head (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.image, linked["image"]); diff != "" {
				t.Errorf("JSON-LD (-want +got):\n%s", diff)
			}
			if n := strings.Count(body, `class="cover"`); tt.img != "" && !strings.Contains(body, tt.img) || tt.img == "" && n > 0 {
				t.Errorf("the page has %d covers, not %s", n, tt.img)
			}
			var feed atomFeed
			if err := xml.Unmarshal(get(s, "/authors/ada/feed.atom").Body.Bytes(), &feed); err != nil {
				t.Fatal(err)
			}
			var enclosure *atomLink
			for _, e := range feed.Entries {
				for _, l := range e.Links {
					if e.Title == name && l.Rel == "enclosure" {
						enclosure = &l
					}
				}
			}
			if diff := cmp.Diff(tt.enclosure, enclosure); diff != "" {
				t.Errorf("feed (-want +got):\n%s", diff)
			}
			if markdown := get(s, path+".md").Body.String(); !strings.Contains(markdown, tt.front) ||
				strings.Contains(markdown, "\ncover") != (tt.cover != "") {
				t.Errorf("front matter: %s", markdown)
			}
			embed := func(query string) (thumbnail []any) {
				var of map[string]any
				address := "/oembed?url=" + url.QueryEscape("https://blog.example"+path) + query
				if err := json.Unmarshal(get(s, address).Body.Bytes(), &of); err != nil {
					t.Fatal(err)
				}
				return []any{of["thumbnail_url"], of["thumbnail_width"], of["thumbnail_height"]}
			}
			for query, want := range map[string][]any{"": tt.thumbnail, "&maxwidth=12&maxheight=7": tt.thumbnail,
				"&maxwidth=11": {nil, nil, nil}, "&maxheight=6": {nil, nil, nil}, "&maxwidth=x": {nil, nil, nil}} {
				if diff := cmp.Diff(want, embed(query)); diff != "" {
					t.Errorf("oEmbed%s (-want +got):\n%s", query, diff)
				}
			}
		})
	}
	list := get(s, "/authors/ada").Body.String()
	if n, high := strings.Count(list, `<img class="cover"`), strings.Count(list, `fetchpriority="high"`); n != 2 || high > 1 ||
		strings.Count(list, `loading="lazy"`) != n-high {
		t.Errorf("a list has %d covers, %d of them with a high priority", n, high)
	}
}

// TestAvatar has uploaded avatars in JSON-LD, by their absolute addresses.
func TestAvatar(t *testing.T) {
	s, blog, pictures := newPicturesSite(t)
	file, _ := upload(t, pictures, "u1")
	for avatar, want := range map[string]any{file: "https://blog.example" + file, "/avatars/ada.svg": nil,
		"https://elsewhere.example/a.png": "https://elsewhere.example/a.png"} {
		if _, err := blog.UpdateUser(t.Context(), "u1", store.UserEdit{AvatarURL: store.Optional{Set: true, Value: avatar}}); err != nil {
			t.Fatal(err)
		}
		_, linked := headOf(t, get(s, "/authors/ada").Body.String())
		if got := linked["mainEntity"].(map[string]any)["image"]; got != want {
			t.Errorf("%s: image %v, want %v", avatar, got, want)
		}
	}
}
