package markdown

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// linksIn returns the links and images of a text: each its address and, if it has another text, that.
func linksIn(t *testing.T, source string) (links []string) {
	t.Helper()
	h, err := Render(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	tokens := html.NewTokenizer(strings.NewReader(string(h)))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		token := tokens.Token()
		if kind == html.EndTagToken || token.DataAtom != atom.A && token.DataAtom != atom.Img {
			continue
		}
		link, text := "without address", ""
		for _, a := range token.Attr {
			switch a.Key {
			case "href", "src":
				link = a.Val
			case "alt":
				text = a.Val
			}
		}
		if token.DataAtom == atom.A {
			tokens.Next()
			text = string(tokens.Text())
		}
		if text != link {
			link += " " + text
		}
		links = append(links, link)
	}
	return links
}

func TestBareLinks(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"letters beyond ASCII in a path -> escaped", "https://ru.wikipedia.org/wiki/Мир и",
			[]string{"https://ru.wikipedia.org/wiki/%D0%9C%D0%B8%D1%80 https://ru.wikipedia.org/wiki/Мир"}},
		{"an apostrophe within -> kept", "https://a.b/L’É", []string{"https://a.b/L%E2%80%99%C3%89 https://a.b/L’É"}},
		{"letters beyond ASCII in a host", "https://münchen.de/",
			[]string{"https://m%C3%BCnchen.de/ https://münchen.de/"}},
		{"localhost with a port", "http://localhost:8080/x", []string{"http://localhost:8080/x"}},
		{"IPv4", "http://192.168.0.1/x", []string{"http://192.168.0.1/x"}},
		{"IPv6", "http://[::1]:8080/x, http://[1:2:3:4:5:6:7:8]",
			[]string{"http://[::1]:8080/x", "http://[1:2:3:4:5:6:7:8]"}},
		{"no IPv6", "http://[a]/ http://[::x] http://[::", nil},
		{"a protocol in upper case -> lower case", "HTTPS://A.b/C", []string{"https://A.b/C HTTPS://A.b/C"}},
		{"punctuation of Japanese -> the end", "詳細はhttp://a.b/日。次（http://a.b）「http://a.b」http://a.b、http://a.b　x",
			[]string{"http://a.b/%E6%97%A5 http://a.b/日", "http://a.b", "http://a.b", "http://a.b", "http://a.b"}},
		{"a dot within Japanese words -> kept", "http://a.b/ア・イ",
			[]string{"http://a.b/%E3%82%A2%E3%83%BB%E3%82%A4 http://a.b/ア・イ"}},
		{"punctuation of a sentence -> not of the link", "http://a.b/x. http://a.b/x؟ “http://a.b/x” http://a.b/x…",
			[]string{"http://a.b/x", "http://a.b/x", "http://a.b/x", "http://a.b/x"}},
		{"brackets -> balanced", "(http://a.b/c_(d)) (www.a.b/?c=(d)e)", []string{"http://a.b/c_(d)",
			"http://www.a.b/?c=(d)e www.a.b/?c=(d)e"}},
		{"a reference at the end -> not of the link", "www.a.b/?c&lt; www.a.b/?c; www.a.b/?c&;",
			[]string{"http://www.a.b/?c www.a.b/?c", "http://www.a.b/?c; www.a.b/?c;",
				"http://www.a.b/?c&; www.a.b/?c&;"}},
		{"< -> the end", "http://a.b<c", []string{"http://a.b"}},
		{"underscores in the last names of a host -> none", "http://a.b_c http://a_b.c http://a_b http://a_b.c.d",
			[]string{"http://a_b.c.d"}},
		{"no host -> none", "http:// http://. http://a..b http:a http:/a www. www.! https://", nil},
		{"a protocol within a word -> none", "xhttp://a.b 1http://a.b ftp://a.b mttp://a.b", nil},
		{"a protocol after other characters", "\"http://a.b\"|http://a.b|éhttp://a.b/é|", []string{"http://a.b",
			"http://a.b", "http://a.b/%C3%A9%7C http://a.b/é|"}},
		{"www within a word -> none", "a.www.b.c /www.b.c xwww.b.c", nil},
		{"www after others", "(www.a.b) *www.a.b* ~~www.a.b~~ 日www.a.b", []string{"http://www.a.b www.a.b",
			"http://www.a.b www.a.b", "http://www.a.b www.a.b", "http://www.a.b www.a.b"}},
		{"within emphasis", "_http://a.b/c_d_ **http://a.b**", []string{"http://a.b/c_d", "http://a.b"}},
		{"e-mail", "a_b.c+d@e-f.gh. é<a@b.c>",
			[]string{"mailto:a_b.c+d@e-f.gh a_b.c+d@e-f.gh", "mailto:a@b.c a@b.c"}},
		{"no e-mail -> none", "a@b a@b.c- a@b.c_ @b.c a@.c a@ *@b.c", nil},
		{"escaped -> none", `http\://a.b www\.a.b a\@b.c`, nil},
		{"in a link -> that", "[http://a.b www.c.d e@f.gh](http://x.y)",
			[]string{"http://x.y http://a.b www.c.d e@f.gh"}},
		{"after a line break", "a  \nhttp://a.b\nwww.a.b\\\nc@d.e", []string{"http://a.b", "http://www.a.b www.a.b",
			"mailto:c@d.e c@d.e"}},
		{"in a cell", "|http://a.b|www.a.b|\n|-|-|\n|c@d.e|", []string{"http://a.b", "http://www.a.b www.a.b",
			"mailto:c@d.e c@d.e"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, linksIn(t, c.text)); d != "" {
				t.Error(d)
			}
		})
	}
}

// What is before a bare link stays.
func TestBareLinks_TextAround(t *testing.T) {
	for text, want := range map[string]string{
		"*a* b_c@d.e f":     "a b_c@d.e f",
		"__a__b@c.d":        "__a__b@c.d",
		"x http://a.b/ y":   "x http://a.b/ y",
		"日www.a.b 日":        "日www.a.b 日",
		"`a`http://a.b":     "ahttp://a.b",
		"a\nb http://c.d e": "a b http://c.d e",
	} {
		h, err := Render(t.Context(), text)
		if have := h.Excerpt(100); err != nil || have != want || !strings.Contains(string(h), "<a ") {
			t.Errorf("%s: %s, %q, %v", text, h, have, err)
		}
	}
}

func TestTaskBoxes(t *testing.T) {
	for text, want := range map[string]string{
		"- [x] a":                  "☑ a",
		"1. [X]\ta":                "☑ a",
		"- [ ] a":                  "☐ a",
		"- [\t] a":                 "☐ a",
		"- [x]\n  a":               "☑ a",
		"- [ ] [a](/b)":            "☐ a",
		"- [X](https://x.com/ada)": "X",
		"- [x]no":                  "[x]no",
		"- [x][a]\n\n[a]: /b":      "x",
		"- [y] a":                  "[y] a",
		"- [x]":                    "[x]",
		"- a [x] b":                "a [x] b",
		"- a\n\n  [x] b":           "a [x] b",
		"[x] a":                    "[x] a",
		"> [x] a":                  "[x] a",
		"- \\[x] a":                "[x] a",
		"- [x](/a) [ ] b":          "x [ ] b",
		"- [x] a\n- [x]b\n- [ ] c": "☑ a [x]b ☐ c",
		"- [x]\u00a0a":             "[x]\u00a0a",
		"- [ x ] a":                "[ x ] a",
		"- [x] \n\n  a":            "[x] a",
		"- [xx] a\n- [] a\n- [x a": "[xx] a [] a [x a",
	} {
		h, err := Render(t.Context(), text)
		if have := h.Excerpt(100); err != nil || strings.Join(strings.Fields(want), " ") != have {
			t.Errorf("%q: have %q, want %q, %v", text, have, want, err)
		}
	}
}

// No address is lost: it is kept and escaped, or shown if no browser can open it.
func TestLinks_Kept(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a stray %", "[d](https://a.b/50%-off) ![d](https://a.b/50%.png) <https://a.b/5%> https://a.b/5%a",
			[]string{"https://a.b/50%25-off d", "https://a.b/50%25.png d", "https://a.b/5%25 https://a.b/5%",
				"https://a.b/5%25a https://a.b/5%a"}},
		{"a stray % in a query, and on the page", "[d](/a?b=%) [d](#%-off) [d](mailto:a%b@c.d)",
			[]string{"/a?b=%25 d", "#user-content-%25-off d", "mailto:a%25b@c.d d"}},
		{"escapes are not escaped again", "[d](/a%20b%C3%A9)", []string{"/a%20b%C3%A9 d"}},
		{"IPv6", "[d](https://[::1]/x) <https://[::1]:80/x[1]> ![d](https://[::1]/x.png) [d](HTTP://u@[::1])",
			[]string{"https://[::1]/x d", "https://[::1]:80/x%5B1%5D https://[::1]:80/x[1]", "https://[::1]/x.png d",
				"http://u@[::1] d"}},
		{"spaces and quotation marks", "[d](</a b\"c>) [d](/a\\\"b)", []string{`/a%20b%22c d`, `/a%22b d`}},
		{"other scripts", "[d](https://а.рф/ü?ß#é)", []string{"https://%D0%B0.%D1%80%D1%84/%C3%BC?%C3%9F#%C3%A9 d"}},
		{"brackets in a path", "[d](/a[1])", []string{"/a%5B1%5D d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, linksIn(t, c.text)); d != "" {
				t.Error(d)
			}
		})
	}
	for text, want := range map[string]string{
		"[d](http://a:b/)":               "<p>d (http://a:b/)</p>\n",
		"![d](https://a:b/c)":            "<p>d (https://a:b/c)</p>\n",
		"[d](https://[::x]/)":            "<p>d (https://[::x]/)</p>\n",
		"<http://a:b/>":                  "<p>http://a:b/</p>\n",
		"http://a:b/":                    "<p>http://a:b/</p>\n",
		"`//%5B::1%5D` =\"x://%5B::1%5D": "<p><code>//%5B::1%5D</code> =&#34;x://%5B::1%5D</p>\n",
		"[d]() ![e]() [f](<>) [g](#)":    "<p>d e f g</p>\n",
	} {
		if h, err := Render(t.Context(), text); err != nil || string(h) != want {
			t.Errorf("%s: have %s, want %s, %v", text, h, want, err)
		}
	}
}

func TestHeadings_Ids(t *testing.T) {
	for text, want := range map[string]string{
		"# Second *part*!":      "second-part",
		"## A & B":              "a--b",
		"# `x_y` 1.2":           "x_y-12",
		"# 日本語 と Ä":             "日本語-と-ä",
		"# नमस्ते":              "नमस्ते",
		"# [a](/b) ![c](/d)":    "a-c",
		"# &amp;a\\*":           "a",
		"a\nb\n=":               "a-b",
		"# http://a.b":          "httpab",
		"# a\n\n# a\n\n# A":     "a a-1 a-2",
		"# a-1\n\n# a\n\n# a":   "a-1 a a-2",
		"# a\n\n# a-1\n\n# a":   "a a-1 a-2",
		"# 🎉\n\n# ???\n\n# - x": "--x",
		"#":                     "",
	} {
		h, err := Render(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, part := range strings.Split(string(h), ` id="user-content-`)[1:] {
			ids = append(ids, part[:strings.IndexByte(part, '"')])
		}
		if have := strings.Join(ids, " "); have != want {
			t.Errorf("%s: have %q, want %q", text, have, want)
		}
	}
	const link = "[to](#second-part) [to](#user-content-a) [to](/b#c)"
	want := []string{"#user-content-second-part to", "#user-content-a to", "/b#c to"}
	if d := cmp.Diff(want, linksIn(t, link)); d != "" {
		t.Error(d)
	}
}
