package e2e

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"byline/internal/servertest"
	"byline/internal/testkit"
)

// sitemapOf is an index of sitemaps, or one of them.
type sitemapOf struct {
	XMLName  xml.Name
	Sitemaps []struct {
		Loc string `xml:"loc"`
	} `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemap"`
	URLs []struct {
		Loc     string `xml:"loc"`
		LastMod string `xml:"lastmod"`
	} `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url"`
}

// readSitemap reads the index and its sitemaps, and returns the date of each path.
func readSitemap(t *testing.T, s *servertest.Instance) map[string]string {
	t.Helper()
	read := func(path string) (of sitemapOf) {
		resp, body := visit(t, s, path)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/xml; charset=utf-8" {
			t.Fatalf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
		if err := xml.Unmarshal([]byte(body), &of); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return of
	}
	found := map[string]string{}
	for _, m := range read("/sitemap.xml").Sitemaps {
		for _, u := range read(strings.TrimPrefix(m.Loc, siteURL)).URLs {
			path := strings.TrimPrefix(u.Loc, siteURL)
			if _, twice := found[path]; twice || path == u.Loc {
				t.Errorf("%s: in the sitemap before: %t", u.Loc, twice)
			}
			found[path] = u.LastMod
		}
	}
	return found
}

// TestSite_Sitemap has every post once in the sitemap, with the date of its last edit, and every address in it
// responds. What is published, edited or deleted appears or disappears within 5 s.
func TestSite_Sitemap(t *testing.T) {
	s := startSite(t)
	changed := func(p feedPost) (path, date string) {
		return "/posts/" + url.PathEscape(p.Slug), p.updated()
	}
	want := map[string]string{}
	for _, p := range allPosts(s) {
		path, date := changed(p)
		want[path] = date
	}
	found := readSitemap(t, s)
	if len(want) < 200 || !maps.Equal(found, want) {
		t.Errorf("%d posts in the sitemap of %d, or with other dates", len(found), len(want))
	}
	for path := range found {
		if resp, _ := visit(t, s, path); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}

	// becomes waits until the sitemap has what it should.
	becomes := func(what string) {
		begun := time.Now()
		testkit.Until(t, func() error {
			if found := readSitemap(t, s); !maps.Equal(found, want) {
				return fmt.Errorf("%s: %d posts in the sitemap, want %d", what, len(found), len(want))
			}
			return nil
		})
		took := time.Since(begun)
		if t.Logf("%s: %v", what, took); took > 5*time.Second {
			t.Errorf("%s took %v", what, took)
		}
	}
	var of struct {
		CreatePost, UpdatePost struct{ Post feedPost }
	}
	ask(s, "ada", `mutation { createPost(input: {title: "new", content: "A text."}) { post { id slug createdAt } } }`,
		nil, &of)
	id := of.CreatePost.Post.ID
	path, date := changed(of.CreatePost.Post)
	want[path] = date
	becomes("a new post")

	ask(s, "ada", `mutation($id: ID!) { updatePost(input: {id: $id, title: "edited"}) {
		post { slug createdAt updatedAt } } }`, map[string]any{"id": id}, &of)
	delete(want, path)
	path, date = changed(of.UpdatePost.Post)
	if want[path] = date; date == of.UpdatePost.Post.CreatedAt {
		t.Errorf("an edit at %s", date)
	}
	becomes("an edit")

	var ignored any
	ask(s, "ada", `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`,
		map[string]any{"id": id}, &ignored)
	delete(want, path)
	becomes("a deletion")

	if _, body := visit(t, s, "/robots.txt"); !strings.Contains(body, "\nSitemap: "+siteURL+"/sitemap.xml\n") {
		t.Errorf("robots.txt names no sitemap: %s", body)
	}
	resp, _ := visit(t, s, "/sitemap.xml")
	tag := resp.Header.Get("ETag")
	again, _ := visit(t, s, "/sitemap.xml", "If-None-Match", tag)
	if tag == "" || again.StatusCode != http.StatusNotModified {
		t.Errorf("with the entity tag %q: %d", tag, again.StatusCode)
	}
	month := date[:len("2026-11")] // which has posts
	for _, query := range []string{"month=", "month=March", "month=1999-01", "month=" + month + "&part=0",
		"month=" + month + "&part=x", "month=" + month + "&part=2", "month=" + month + "&part=1152921504606846977"} {
		if resp, _ := visit(t, s, "/sitemap.xml?"+query); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", query, resp.StatusCode)
		}
	}
}
