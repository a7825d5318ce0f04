package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"byline/graph/auth"
	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/seed"
)

// siteURL is the address that pages name, whatever the server's is.
const siteURL = "https://blog.example"

// startSite starts a server with the demo blog and a front end of a few lines.
func startSite(t *testing.T) *servertest.Instance {
	t.Helper()
	s := start(t, "--data", t.TempDir(), "--site", "testdata/site", "--site-url", siteURL)
	s.WaitReady() // the demo blog is complete
	return s
}

// ask executes an operation as a demo user, and decodes the data of its response.
func ask(s *servertest.Instance, user, query string, variables map[string]any, into any) {
	s.T.Helper()
	raw, err := json.Marshal(s.Do(user, query, variables))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// visit requests a path as a crawler does, and does not follow redirects.
func visit(t testing.TB, s *servertest.Instance, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Root+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// webPage is what a crawler finds on a page.
type webPage struct {
	title   string
	meta    map[string]string // by name or property
	links   map[string]string // of the head, by rel and type
	hrefs   []string          // of links in the body
	linked  []map[string]any  // JSON-LD
	text    string            // of the body, words separated by one space
	inlined map[string]string // the element of the inlined response: its attributes, and its text by ""
}

func parsePage(t *testing.T, body string) (p webPage) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	p.meta, p.links = map[string]string{}, map[string]string{}
	attributes := func(n *html.Node) map[string]string {
		all := map[string]string{}
		for _, a := range n.Attr {
			all[a.Key] = a.Val
		}
		return all
	}
	var words []string
	for n := range document.Descendants() {
		a := attributes(n)
		switch {
		case n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "title":
			words = append(words, strings.Fields(n.Data)...)
		case n.Type != html.ElementNode:
		case n.Data == "title":
			p.title = n.FirstChild.Data
		case n.Data == "meta":
			p.meta[a["name"]+a["property"]] = a["content"]
		case n.Data == "link":
			p.links[strings.TrimSpace(a["rel"]+" "+a["type"])] = a["href"]
		case n.Data == "a":
			p.hrefs = append(p.hrefs, a["href"])
		case n.Data == "script" && a["type"] == "application/ld+json":
			var graph struct {
				Context string           `json:"@context"`
				Graph   []map[string]any `json:"@graph"`
			}
			if err := json.Unmarshal([]byte(n.FirstChild.Data), &graph); err != nil || graph.Context != "https://schema.org" {
				t.Fatalf("JSON-LD: %v: %s", err, n.FirstChild.Data)
			}
			p.linked = graph.Graph
		case n.Data == "script" && a["id"] == "byline-response":
			p.inlined = a
			p.inlined[""] = n.FirstChild.Data
		}
	}
	p.text = strings.Join(words, " ")
	return p
}

// wordsOf returns the words of HTML, separated by one space.
func wordsOf(t *testing.T, text string) string {
	t.Helper()
	return parsePage(t, text).text
}

// TestSite_EveryPost reads the pages of all posts as a crawler does, which follows links from the front page. Each
// has its tags in the head, valid JSON-LD, the response to the front end's query, and every word of the post.
func TestSite_EveryPost(t *testing.T) {
	testkit.Heavy(t)
	t.Run("demo", func(t *testing.T) { checkEveryPost(t, startSite(t), 12) })
	t.Run("seeded", func(t *testing.T) {
		blog := seed.Blog{Seed: 11, Users: 15, Authors: 15, Posts: [2]int{20, 20}, Comments: 3, Likes: 5,
			Markdown: true, UserID: auth.DemoUserID}
		data := t.TempDir()
		inBlog(t, data, func(s *store.Store) error { return seed.LoadOffline(t.Context(), blog, s, nil) })
		s := start(t, "--data", data, "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
		s.WaitReady()
		checkEveryPost(t, s, 0)
	})
}

// checkEveryPost checks the pages of all posts, of which some have covers.
func checkEveryPost(t *testing.T, s *instance, covers int) {
	t.Helper()
	var found []string
	for path := "/"; path != ""; {
		resp, body := visit(t, s, path)
		p := parsePage(t, body)
		if resp.StatusCode != http.StatusOK || p.title != "The blog" || p.meta["description"] == "of the front end" {
			t.Fatalf("%s: %d, title %q, description %q", path, resp.StatusCode, p.title, p.meta["description"])
		}
		if path == "/" && !strings.HasPrefix(p.inlined[""], `{"data":{"feed":`) {
			t.Errorf("the front page brings no response along: %v", p.inlined)
		}
		for _, href := range p.hrefs {
			if strings.HasPrefix(href, "/posts/") {
				found = append(found, href)
			}
		}
		path = strings.TrimPrefix(p.links["next"], siteURL)
	}
	posts := allPosts(s)
	if len(posts) < 200 || len(found) != len(posts) {
		t.Fatalf("links to %d posts of %d", len(found), len(posts))
	}
	for i, post := range posts {
		if address := post.cover(); address != "" {
			covers--
			resp, body := visit(t, s, strings.TrimPrefix(address, siteURL))
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "image/png" || len(body) < 1000 {
				t.Errorf("%s: %d %v", address, resp.StatusCode, resp.Header)
			}
		}
		path := "/posts/" + url.PathEscape(post.Slug)
		if found[i] != path {
			t.Errorf("link %d is %s, not %s", i, found[i], path)
		}
		resp, body := visit(t, s, path)
		p := parsePage(t, body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
			continue
		}
		for what, pair := range map[string][2]string{
			"title":       {p.title, post.Title + " · The blog"},
			"description": {p.meta["description"], post.Excerpt},
			"og:title":    {p.meta["og:title"], post.Title},
			"og:url":      {p.meta["og:url"], siteURL + path},
			"og:type":     {p.meta["og:type"], "article"},
			"published":   {p.meta["article:published_time"], post.CreatedAt},
			"card":        {p.meta["twitter:card"], map[bool]string{false: "summary", true: "summary_large_image"}[post.cover() != ""]},
			"og:image":    {p.meta["og:image"], post.cover()},
			"canonical":   {p.links["canonical"], siteURL + path},
			"markdown":    {p.links["alternate text/markdown"], siteURL + path + ".md"},
			"feed":        {p.links["alternate application/atom+xml"], siteURL + "/feed.atom"},
			"headline":    {fmt.Sprint(p.linked[0]["headline"]), post.Title},
			"author":      {fmt.Sprint(p.linked[0]["author"].(map[string]any)["name"]), post.Author.DisplayName},
			"breadcrumbs": {fmt.Sprint(p.linked[1]["@type"]), "BreadcrumbList"},
			"document":    {p.inlined["data-document"], "post"},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: got %q, want %q", path, what, pair[0], pair[1])
			}
		}
		if !strings.Contains(p.text, wordsOf(t, post.ContentHTML)) {
			t.Errorf("%s lacks words of the post", path)
		}
	}
	if covers != 0 {
		t.Errorf("%d covers are missing", covers)
	}
}

// TestSite_BlobStorage: pages may send pictures to the storage account.
func TestSite_BlobStorage(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo", "--site", "testdata/site", "--site-url", siteURL,
		"--files-endpoint", "https://account.blob.core.windows.net", "--files-url", "https://pictures.example/files")
	resp, _ := visit(t, s, "/")
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy,
		"connect-src 'self' https://account.blob.core.windows.net;") {
		t.Errorf("policy %s", policy)
	}
}

// TestSite_ColdPage: the page of a post that nobody has read, with its comments, takes two requests and at most 3.5 RU;
// afterwards it costs nothing.
func TestSite_ColdPage(t *testing.T) {
	data := t.TempDir()
	serve := func() *instance {
		return start(t, "--data", data, "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
	}
	s := serve()
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	created := s.Do("ada", createPost, map[string]any{"title": "On engines", "content": strings.Repeat("A sentence. ", 100)})
	for range 5 {
		s.Do("ada", `mutation($p: ID!) { createComment(input: {postId: $p, content: "A comment."}) { comment { id } } }`,
			map[string]any{"p": at(t, created, "createPost.post.id")})
	}
	feed := s.Do("", `{ feed { edges { node { slug } } } }`, nil)
	path := "/posts/" + url.PathEscape(at(t, feed, "feed.edges.0.node.slug").(string))
	s.Stop() // the next has nothing in its caches
	s = serve()
	cost := func() (ru, requests float64) {
		ru, requests = queryRU(t, s.Root), readRequests(t, s.Root)
		if resp, body := visit(t, s, path); resp.StatusCode != http.StatusOK || !strings.Contains(body, "A comment.") {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		return queryRU(t, s.Root) - ru, readRequests(t, s.Root) - requests
	}
	if ru, requests := cost(); ru > 3.5 || requests > 2 || requests == 0 {
		t.Errorf("%.2f RU in %v requests, want at most 3.5 RU in 2", ru, requests)
	}
	eventually(t, func() error { // once the instance has the changes of the former one
		if ru, requests := cost(); requests > 0 {
			return fmt.Errorf("%.2f RU in %v requests, want none", ru, requests)
		}
		return nil
	})
}

// TestSite_Status has every kind of address respond with the status that crawlers expect.
func TestSite_Status(t *testing.T) {
	s := startSite(t)
	var created struct {
		CreatePost struct{ Post struct{ ID, Slug string } }
	}
	create := func(title string, draft bool) (id, path string) {
		ask(s, "ada", `mutation($t: String!, $d: Boolean!) { createPost(input: {title: $t, content: "A text.", draft: $d}) {
			post { id slug } } }`, map[string]any{"t": title, "d": draft}, &created)
		return created.CreatePost.Post.ID, "/posts/" + created.CreatePost.Post.Slug
	}
	edited, former := create("A first title", false)
	var ignored any
	ask(s, "ada", `mutation($id: ID!) { updatePost(input: {id: $id, title: "Another"}) { post { id } } }`, map[string]any{"id": edited}, &ignored)
	deleted, gone := create("To be deleted", false)
	ask(s, "ada", `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`, map[string]any{"id": deleted}, &ignored)
	_, draft := create("A draft", true)
	another := strings.Replace(former, "a-first-title", "another", 1)
	for _, tt := range []struct {
		path, location string
		status         int
	}{
		{former, another, http.StatusMovedPermanently},
		{another, "", http.StatusOK},
		{another + "/", another, http.StatusMovedPermanently},
		{gone, "", http.StatusGone},
		{draft, "", http.StatusNotFound},
		{former + ".md", another + ".md", http.StatusMovedPermanently},
		{another + ".md", "", http.StatusOK},
		{gone + ".md", "", http.StatusGone},
		{"/posts/nothing", "", http.StatusNotFound},
		{"/authors/ada", "", http.StatusOK},
		{"/authors/ADA", "/authors/ada", http.StatusMovedPermanently},
		{"/authors/nobody", "", http.StatusNotFound},
		{"/tags/nothing", "", http.StatusNotFound},
		{"/write", "", http.StatusOK},
		{"/nowhere", "", http.StatusNotFound},
		{"/site.json", "", http.StatusNotFound},
		{"/index.html", "", http.StatusNotFound},
		{"/%2e%2e/main_test.go", "", http.StatusNotFound},
		{"/assets/app-4f2a9c1e.js", "", http.StatusOK},
		{"/playground", "", http.StatusOK},
		{"/robots.txt", "", http.StatusOK},
		{"/llms.txt", "", http.StatusOK},
		{"/oembed?url=" + url.QueryEscape(siteURL+another), "", http.StatusOK},
		{"/oembed?url=" + url.QueryEscape(siteURL+gone), "", http.StatusGone},
		{"/oembed?url=https://elsewhere.example/posts/x", "", http.StatusNotFound},
		{"/oembed?format=xml&url=" + url.QueryEscape(siteURL+another), "", http.StatusNotImplemented},
		{"/?after=nonsense", "", http.StatusNotFound},
		{"/feed.atom?after=nonsense", "", http.StatusNotFound},
	} {
		for _, header := range [][]string{nil, {"Authorization", "Bearer demo:ada"}} {
			resp, body := visit(t, s, tt.path, header...)
			if resp.StatusCode != tt.status || resp.Header.Get("Location") != tt.location {
				t.Errorf("%s %v: %d %q, want %d %q\n%.500s", tt.path, header, resp.StatusCode, resp.Header.Get("Location"),
					tt.status, tt.location, body)
			}
			if tt.status >= 400 && tt.status != http.StatusNotImplemented && resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d may be cached: %s", tt.path, resp.StatusCode, resp.Header.Get("Cache-Control"))
			}
		}
	}
}

// TestSite_Caching has browsers and CDNs keep what is the same for everybody, as long as it is the same.
func TestSite_Caching(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/site")); err != nil {
		t.Fatal(err)
	}
	serve := func() *servertest.Instance {
		s := start(t, "--data", data, "--site", dir, "--site-url", siteURL)
		s.WaitReady()
		return s
	}
	s := serve()
	var front struct {
		Feed struct {
			Edges []struct{ Node struct{ Slug string } }
		}
	}
	ask(s, "", `{ feed(first: 1) { edges { node { slug } } } }`, nil, &front)
	path := "/posts/" + url.PathEscape(front.Feed.Edges[0].Node.Slug)
	tags := map[string]string{}
	paths := []string{"/", path, path + ".md", "/feed.atom"}
	for _, at := range paths {
		resp, body := visit(t, s, at)
		tags[at] = resp.Header.Get("ETag")
		if again, _ := visit(t, s, at, "If-None-Match", tags[at]); again.StatusCode != http.StatusNotModified || tags[at] == "" {
			t.Errorf("%s with the entity tag %q: %d", at, tags[at], again.StatusCode)
		}
		if age := resp.Header.Get("Cache-Control"); !strings.HasPrefix(age, "public, max-age=") {
			t.Errorf("%s: Cache-Control %s", at, age)
		}
		zipped, _ := visit(t, s, at, "Accept-Encoding", "gzip")
		if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.ContentLength > int64(len(body))*2/3 {
			t.Errorf("%s: %d of %d bytes, %v", at, zipped.ContentLength, len(body), zipped.Header)
		}
	}
	if _, body := visit(t, s, path+"?after=x"); !strings.Contains(body, `rel="canonical" href="`+siteURL+path+`"`) {
		t.Errorf("the canonical address of a post follows the query: %.2000s", body)
	}
	r, err := http.Post(s.Root+path, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.StatusCode)
	}
	if r, err = http.Head(s.Root + path); err != nil || r.StatusCode != http.StatusOK || r.ContentLength < 1000 {
		t.Errorf("HEAD: %v %v", r, err)
	}

	// Another build, whose pages name other files.
	s.Stop()
	shell, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "index.html"), bytes.ReplaceAll(shell, []byte("4f2a9c1e"), []byte("12345678")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = serve()
	for _, at := range paths[:2] {
		if resp, body := visit(t, s, at, "If-None-Match", tags[at]); resp.StatusCode != http.StatusOK || !strings.Contains(body, "12345678") {
			t.Errorf("%s of another build: %d", at, resp.StatusCode)
		}
	}
}

// TestSite_Feeds walks a feed to its end: every post is in it once, and each page is valid XML.
func TestSite_Feeds(t *testing.T) {
	s := startSite(t)
	type feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Links   []struct {
			Rel  string `xml:"rel,attr"`
			Href string `xml:"href,attr"`
		} `xml:"link"`
		Entries []struct {
			ID      string `xml:"id"`
			Title   string `xml:"title"`
			Content string `xml:"content"`
			Updated string `xml:"updated"`
		} `xml:"entry"`
	}
	for _, path := range []string{"/feed.atom", "/authors/ada/feed.atom", "/tags/go/feed.atom"} {
		seen := map[string]bool{}
		for at := path; at != ""; {
			resp, body := visit(t, s, at)
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Last-Modified") == "" || resp.Header.Get("ETag") == "" {
				t.Fatalf("%s: %d %v", at, resp.StatusCode, resp.Header)
			}
			var f feed
			if err := xml.Unmarshal([]byte(body), &f); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			for _, e := range f.Entries {
				if seen[e.ID] || e.Title == "" || e.Content == "" || e.Updated == "" {
					t.Errorf("%s: entry %+v, seen before: %v", at, e, seen[e.ID])
				}
				seen[e.ID] = true
			}
			if again, _ := visit(t, s, at, "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
				t.Errorf("%s with its entity tag: %d", at, again.StatusCode)
			}
			at = ""
			for _, l := range f.Links {
				if l.Rel == "next" {
					at = strings.TrimPrefix(l.Href, siteURL)
				}
			}
		}
		if len(seen) < 2 {
			t.Errorf("%s has %d entries", path, len(seen))
		}
	}
}
