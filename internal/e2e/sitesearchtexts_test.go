package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"byline/internal/testkit"
)

// TestSite_SearchTexts has the head of a post's page follow the texts that its author has set for search engines and
// link previews, and nothing else of the page.
func TestSite_SearchTexts(t *testing.T) {
	testkit.Heavy(t)
	s := startSite(t)
	var created struct {
		CreatePost struct{ Post struct{ ID, Slug string } }
	}
	ask(s, "ada", `mutation($u: String!) { createPost(input: {title: "The title", content: "The text.", canonicalUrl: $u,
		seoTitle: "For engines", seoDescription: "In <one> line"}) { post { id slug } } }`,
		map[string]any{"u": "https://elsewhere.example/first?page=1&x=a%20b"}, &created)
	id, path := created.CreatePost.Post.ID, "/posts/"+url.PathEscape(created.CreatePost.Post.Slug)
	type head struct{ title, description, canonical string }
	check := func(when string, want head) {
		t.Helper()
		resp, body := visit(t, s, path)
		p := parsePage(t, body)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", when, resp.StatusCode)
		}
		for what, pair := range map[string][2]string{
			"title":                {p.title, want.title + " · The blog"},
			"og:title":             {p.meta["og:title"], want.title},
			"description":          {p.meta["description"], want.description},
			"og:description":       {p.meta["og:description"], want.description},
			"canonical":            {p.links["canonical"], want.canonical},
			"og:url":               {p.meta["og:url"], want.canonical},
			"headline":             {fmt.Sprint(p.linked[0]["headline"]), "The title"},
			"description, JSON-LD": {fmt.Sprint(p.linked[0]["description"]), "The text."},
			"url, JSON-LD":         {fmt.Sprint(p.linked[0]["url"]), siteURL + path},
			"Markdown":             {p.links["alternate text/markdown"], siteURL + path + ".md"},
			"oEmbed": {p.links["alternate application/json+oembed"],
				siteURL + "/oembed?url=" + url.QueryEscape(siteURL+path)},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: got %q, want %q", when, what, pair[0], pair[1])
			}
		}
		if !strings.Contains(p.text, "The title") || strings.Contains(p.text, "For engines") {
			t.Errorf("%s: the page reads %q", when, p.text)
		}
	}
	check("created", head{"For engines", "In <one> line", "https://elsewhere.example/first?page=1&x=a%20b"})

	var ignored any
	update := func(input map[string]any) {
		t.Helper()
		input["id"] = id
		ask(s, "ada", `mutation($i: UpdatePostInput!) { updatePost(input: $i) { post { id } } }`,
			map[string]any{"i": input}, &ignored)
	}
	update(map[string]any{"seoTitle": nil})
	check("without a title", head{"The title", "In <one> line", "https://elsewhere.example/first?page=1&x=a%20b"})
	update(map[string]any{"seoDescription": "", "canonicalUrl": nil})
	check("without any", head{"The title", "The text.", siteURL + path})
	listed := func(want bool) {
		t.Helper()
		eventually(t, func() error {
			if _, ok := readSitemap(t, s)[path]; ok != want {
				return fmt.Errorf("in the sitemap: %t, want %t", ok, want)
			}
			return nil
		})
	}
	listed(true)

	for _, hostile := range []string{`</title><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `{{.Blog}}`} {
		address := "https://elsewhere.example/?q=%22%3E%3Cscript%3E"
		update(map[string]any{"seoTitle": hostile, "seoDescription": hostile, "canonicalUrl": address})
		check("with "+hostile, head{hostile, hostile, address})
	}
	listed(false) // its canonical address is elsewhere
}
