package markdown

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRender(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"paragraphs", "a\nb\n\nc", "<p>a\nb</p>\n<p>c</p>\n"},
		{"hard line breaks", "a  \nb\\\nc", "<p>a<br>\nb<br>\nc</p>\n"},
		{"emphasis", "*a* __b__ ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <del>c</del> <code>d</code></p>\n"},
		{"headings are one level lower", "# a\n\nb\n=\n\n###### c",
			"<h2 id=\"user-content-a\">a</h2>\n<h2 id=\"user-content-b\">b</h2>\n<h6 id=\"user-content-c\">c</h6>\n"},
		{"entities and escapes", `&copy; \*a\* <b`, "<p>© *a* &lt;b</p>\n"},
		{"quote with list", "> - a\n> - b", "<blockquote>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n</blockquote>\n"},
		{"ordered list with start", "7. a\n8. b", "<ol start=\"7\">\n<li>a</li>\n<li>b</li>\n</ol>\n"},
		{"task list", "- [x] a\n- [ ] b", "<ul>\n<li>☑ a</li>\n<li>☐ b</li>\n</ul>\n"},
		{"rule", "a\n\n---", "<p>a</p>\n<hr>\n"},
		{"code block", "    a < b", "<pre><code>a &lt; b\n</code></pre>\n"},
		{"fenced code with language", "```c++ linenos\na\n```", "<pre><code class=\"language-c++\">a\n</code></pre>\n"},
		{"fenced code with more than a language", "```js{1,3}\na\n```",
			"<pre><code class=\"language-js\">a\n</code></pre>\n"},
		{"fenced code with an invalid language", "```\"onclick=b\na\n```", "<pre><code>a\n</code></pre>\n"},
		{"table", "| a | b |\n|:-:|--:|\n| 1 | 2 |",
			"<table>\n<thead>\n<tr>\n<th align=\"center\">a</th>\n<th align=\"right\">b</th>\n</tr>\n</thead>\n" +
				"<tbody>\n<tr>\n<td align=\"center\">1</td>\n<td align=\"right\">2</td>\n</tr>\n</tbody>\n</table>\n"},
		{"link", `[a](https://b.example/c?d=1&e=2 "f")`,
			`<p><a href="https://b.example/c?d=1&amp;e=2" title="f" rel="nofollow ugc noopener">a</a></p>` + "\n"},
		{"link by reference", "[a]\n\n[a]: /b", `<p><a href="/b" rel="nofollow ugc noopener">a</a></p>` + "\n"},
		{"link on the page", "[a](#b)", `<p><a href="#user-content-b" rel="nofollow ugc noopener">a</a></p>` + "\n"},
		{"bare links", "www.a.example, b@c.example",
			`<p><a href="http://www.a.example" rel="nofollow ugc noopener">www.a.example</a>, ` +
				`<a href="mailto:b@c.example" rel="nofollow ugc noopener">b@c.example</a></p>` + "\n"},
		{"image", `![a](https://b.example/c.png)`,
			`<p><img src="https://b.example/c.png" alt="a" loading="lazy"></p>` + "\n"},
		{"image of this site", `![a](/c.png "d")`, `<p><img src="/c.png" alt="a" title="d" loading="lazy"></p>` + "\n"},
		{"HTML is text", "a <b>c</b>\n\n<div>\nd\n</div>",
			"<p>a &lt;b&gt;c&lt;/b&gt;</p>\n<p>&lt;div&gt;\nd\n&lt;/div&gt;</p>\n"},
		{"right-to-left", "# שלום", "<h2 id=\"user-content-שלום\">שלום</h2>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, err := Render(t.Context(), c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(have)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRender_EndsWithContext(t *testing.T) {
	for range cap(shortSlots) { // as if texts were being rendered
		shortSlots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := Render(ctx, "a")
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits for a slot: %v", err)
	}
	for range cap(shortSlots) {
		<-shortSlots
	}
	if h, err := Render(ctx, "a"); h != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("with a slot: %q, %v", h, err)
	}
}

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		name, text string
		max        int
		want       string
	}{
		{"no markup", "A *b*\n\n- [c](/d)\n- e\n\n> g", 100, "A b c e g"},
		{"prose only", "# A *b*\n\nc\n\n```\nd\n```\n\n|e|\n|-|\n|f|\n\n## g\n\n![h](/i.png) j `k`", 100, "c j k"},
		{"nothing but headings", "# A *b*\n\n## c", 100, "A b c"},
		{"nothing but an image", "![a b](/c.png)", 100, "a b"},
		{"words are not torn by markup", "**Byl**ine", 100, "Byline"},
		{"cut between words", "one two three", 11, "one two"},
		{"exactly as long", "one two three", 13, "one two three"},
		{"a long word is cut", strings.Repeat("é", 20), 5, "ééééé"},
		{"a long word after others is cut", "a " + strings.Repeat("b", 20), 10, "a bbbbbbbb"},
		{"a script without spaces is cut", "# はじめに\n\n" + strings.Repeat("言語", 20), 10, "言語言語言語言語言語"},
		{"a word in another script is cut", "Go " + strings.Repeat("言語", 20), 10, "Go 言語言語言語言"},
		{"clusters are not cut", strings.Repeat("👩\u200d👧", 5), 8, "👩\u200d👧👩\u200d👧"},
		{"markup within a cluster", "ab*c*\u0301\u0301d", 4, "ab"},
		{"a space at the limit", "one two three", 7, "one two"},
		{"entities", "a &amp; b &lt;c", 100, "a & b <c"},
		{"code and lines", "```\nc  d\ne\n```", 100, "c d e"},
		{"line breaks", "a\\\nb", 100, "a b"},
		{"tables", "|a|b|\n|-|-|\n|c|d|", 100, "a b c d"},
		{"empty", "", 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Render(t.Context(), c.text)
			if err != nil {
				t.Fatal(err)
			}
			if have := h.Excerpt(c.max); have != c.want {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}

func TestReadingMinutes(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 1},
		{strings.Repeat("- * # ", 1000), 1},
		{strings.Repeat("word ", 300), 1},
		{strings.Repeat("word ", 400), 2},
		{strings.Repeat("word ", 2300), 10},
		{strings.Repeat("漢字", 2500), 10},
	} {
		if have := ReadingMinutes(c.text); have != c.want {
			t.Errorf("%.10s…: have %d minutes, want %d", c.text, have, c.want)
		}
	}
}
