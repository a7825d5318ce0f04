package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"byline/graph/cost"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
)

const (
	markdownText = "# Title\n\n*Some* <b>text</b> and [a link](javascript:x), " +
		"[another](https://example.com).\n\n```go\nfunc main()\n```"
	renderedText = `<h2 id="user-content-title">Title</h2>
<p><em>Some</em> &lt;b&gt;text&lt;/b&gt; and a link, <a href="https://example.com" rel="nofollow ugc noopener">another</a>.</p>
<pre><code class="language-go">func main()
</code></pre>
`
)

// The HTML of posts and comments is the same wherever it is selected.
func TestContentHTML(t *testing.T) {
	b := smallBlog(t, Options{HTMLCacheBytes: 1 << 20})
	id := b.post(t, "ada", "Über Größe", markdownText)
	b.comment(t, "grace", id, markdownText)
	b.names["comment"] = b.names["comment:"+markdownText]
	b.settle(t)
	want, err := json.Marshal(renderedText)
	if err != nil {
		t.Fatal(err)
	}
	html := fmt.Sprintf(`"contentHtml":%s`, unescapeHTML(string(want)))
	for name, h := range map[string]http.Handler{"with plans": b, "without": unplannedHandler{b}} {
		for query, times := range map[string]int{
			`{ post(id: "<post:Über Größe>") { contentHtml } }`:                                               1,
			`{ post(id: "<post:Über Größe>") { contentHtml comments { edges { node { contentHtml } } } } }`:   2,
			`{ feed(first: 1) { edges { node { contentHtml } } } }`:                                           1,
			`{ node(id: "<comment>") { ... on Comment { contentHtml post { contentHtml } } } }`:               2,
			`mutation { likePost(input: {postId: "<post:Über Größe>"}) { post { contentHtml } } }`:            1,
			`mutation($c: String!) { createPost(input: {title: "t", content: $c}) { post { contentHtml } } }`: 1,
		} {
			a := post(t, h, "demo:ada", b.fill(query), map[string]any{"c": markdownText})
			if a.code() != "" || strings.Count(unescapeHTML(a.body), html) != times {
				t.Errorf("%s: %s\n%s", name, query, a.body)
			}
		}
		a := post(t, h, "", b.fill(`{ post(id: "<post:Über Größe>") { slug readingMinutes excerpt } }`), nil)
		slug := (&blog.Post{ID: id, Title: "Über Größe"}).Slug()
		if want := `{"post":{"slug":"` + slug +
			`","readingMinutes":1,"excerpt":"Some <b>text</b> and a link, another."}}`; unescapeHTML(
			string(a.Data)) != want {
			t.Errorf("%s: %s, want %s", name, a.Data, want)
		}
	}
}

// unescapeHTML replaces the escapes that encoding/json uses for < > and & by these.
func unescapeHTML(text string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}

// A slug is a point read. All slugs that a post has had find it.
func TestPostBySlug(t *testing.T) {
	b := smallBlog(t, Options{})
	slugOf := func(id string) string {
		t.Helper()
		var data struct{ Post struct{ Slug string } }
		a := post(t, b, "", `query($id: ID!) { post(id: $id) { slug } }`, map[string]any{"id": postGlobalID(id)})
		if err := json.Unmarshal(a.Data, &data); err != nil || data.Post.Slug == "" {
			t.Fatal(a.body, err)
		}
		return data.Post.Slug
	}
	short, long := b.postID(t, "engines"), b.post(t, "ada", "long", strings.Repeat("long ", 2000))
	for _, id := range []string{short, long} {
		old := slugOf(id)
		if a := post(t, b, "demo:ada",
			`mutation($id: ID!) { updatePost(input: {id: $id, title: "A new Title"}) { post { id } } }`,
			map[string]any{"id": postGlobalID(id)}); a.code() != "" {
			t.Fatal(a.body)
		}
		current := slugOf(id)
		if !strings.HasPrefix(current, "a-new-title-") {
			t.Errorf("slug %s", current)
		}
		for name, h := range map[string]http.Handler{"with plans": b, "without": unplannedHandler{b}} {
			for _, slug := range []string{old, current, "anything-" + current} {
				b.wire.reset()
				a := post(t, h, "", `query($slug: String!) { postBySlug(slug: $slug) { slug title } }`,
					map[string]any{"slug": slug})
				if want := `{"postBySlug":{"slug":"` + current + `","title":"A new Title"}}`; string(a.Data) != want {
					t.Errorf("%s, %s: %s", name, slug, a.body)
				}
				if seen := b.wire.seen(); len(seen) != map[bool]int{false: 1, true: 2}[id == long] ||
					seen[0] != "read posts" {
					t.Errorf("%s, %s: %v", name, slug, seen)
				}
			}
		}
	}
	deleted := slugOf(short)
	if a := post(t, b, "demo:ada", b.fill(`mutation { deletePost(input: {id: "<post:engines>"}) { deletedPostId } }`),
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	for _, slug := range []string{"", "-", "engines", "x-c706f73742d31", deleted, strings.Repeat("x", 1000)} {
		if a := post(t, b, "", `query($slug: String!) { postBySlug(slug: $slug) { id } }`,
			map[string]any{"slug": slug}); string(a.Data) != `{"postBySlug":null}` || a.code() != "" {
			t.Errorf("%s: %s", slug, a.body)
		}
	}
}

const preview = `query($text: String!) { renderMarkdown(text: $text) }`

func TestRenderMarkdown(t *testing.T) {
	h := newTestHandler(t, Options{}) // the store panics when it is used
	for name, tt := range map[string]struct{ token, text, code, field string }{
		"anonymous":                          {"", "a", "UNAUTHENTICATED", ""},
		"a text":                             {"demo:ada", markdownText, "", ""},
		"an empty text":                      {"demo:ada", "", "", ""},
		"the longest":                        {"demo:ada", strings.Repeat("ä", 100_000), "", ""},
		"too long":                           {"demo:ada", strings.Repeat("a", 100_001), "BAD_USER_INPUT", "text"},
		"a control character":                {"demo:ada", "a\x00", "BAD_USER_INPUT", "text"},
		"slow to render":                     {"demo:ada", strings.Repeat("> ", 100) + "a", "BAD_USER_INPUT", "text"},
		"slow to render, of many delimiters": {"demo:ada", strings.Repeat("*a_", 2000), "BAD_USER_INPUT", "text"},
	} {
		a := post(t, h, tt.token, preview, map[string]any{"text": tt.text})
		if a.code() != tt.code || a.field() != tt.field ||
			tt.code != "" && string(a.Data) != `{"renderMarkdown":null}` {
			t.Errorf("%s: %.300s", name, a.body)
		}
		if tt.text == markdownText {
			var data struct{ RenderMarkdown string }
			if err := json.Unmarshal(a.Data, &data); err != nil || data.RenderMarkdown != renderedText {
				t.Errorf("%s: %s %v", name, a.body, err)
			}
		}
	}
}

// A preview is limited like a write: what it costs is not returned to the budget, although it makes no request.
func TestRenderMarkdown_TakesBudget(t *testing.T) {
	b := newBlogOf(t, Options{RUPerViewer: cost.Budget{RU: 40}}, store.Options{}, 0)
	for _, code := range []string{"", "", "THROTTLED"} {
		if a := post(t, b, "demo:ada", preview, map[string]any{"text": "a"}); a.code() != code {
			t.Errorf("have %s, want %s", a.body, code)
		}
	}
	if a := post(t, b, "demo:grace", preview, map[string]any{"text": strings.Repeat("a", 50_000)}); a.code() != "" {
		t.Errorf("the first of another viewer: %s", a.body)
	}
	if a := post(t, b, "demo:grace", preview, map[string]any{"text": "a"}); a.code() != "THROTTLED" {
		t.Errorf("a long text costs no more: %s", a.body)
	}
	if seen := b.wire.seen(); len(seen) > 0 {
		t.Errorf("requests: %v", seen)
	}
	many := strings.Repeat("a", 100_000)
	if a := post(t, b, "demo:joan",
		`query($t: String!) { a: renderMarkdown(text: $t) b: renderMarkdown(text: $t) c: renderMarkdown(text: $t) d: renderMarkdown(text: $t) e: renderMarkdown(text: $t) f: renderMarkdown(text: $t) g: renderMarkdown(text: $t) }`, map[string]any{"t": many}); a.code() != "QUERY_TOO_EXPENSIVE" {
		t.Errorf("many long previews: %.300s", a.body)
	}
}

// Texts that are rendered for a response are charged by their bytes, once: those in the cache cost nothing.
func TestContentHTML_TakesBudget(t *testing.T) {
	b := newBlogOf(t, Options{RUPerViewer: cost.Budget{RU: 40}, HTMLCacheBytes: 1 << 20}, store.Options{}, 0)
	b.user(t, "ada")
	id := postGlobalID(b.post(t, "ada", "long", strings.Repeat("a word ", 14_000)))
	read := func(viewer, field string) string {
		return post(t, b, viewer, `query($id: ID!) { post(id: $id) { a: `+field+` b: `+field+` } }`,
			map[string]any{"id": id}).code()
	}
	for _, tt := range []struct{ viewer, field, code string }{
		{"demo:grace", "content", ""},
		{"demo:grace", "content", ""},
		{"demo:grace", "contentHtml", ""}, // 35 RU, more than are left: the next request is refused
		{"demo:grace", "content", "THROTTLED"},
		{"demo:joan", "contentHtml", ""}, // cached
		{"demo:joan", "contentHtml", ""},
		{"demo:joan", "content", ""},
	} {
		if code := read(tt.viewer, tt.field); code != tt.code {
			t.Errorf("%s of %s: %q, want %q", tt.field, tt.viewer, code, tt.code)
		}
	}
}

// A text waits for its client's slot until the request ends; other clients do not wait.
func TestRender_WaitsForItsSlot(t *testing.T) {
	r := &Resolver{rendering: &limit.ClientSlots{}}
	release, err := r.rendering.Acquire(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if h, err := r.render(ended, "ada", "*a*", t.FailNow); classify(err).code != refusal.Unavailable {
		t.Errorf("a second text of the client: %q, %v", h, err)
	}
	if h, err := r.render(t.Context(), "grace", "*a*", func() {}); err != nil {
		t.Errorf("a text of another client: %q, %v", h, err)
	}
}
