package markdown

import (
	"bufio"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// allowed are the elements of rendered HTML, with their attributes.
var allowed = map[string][]string{
	"p": nil, "h2": {"id"}, "h3": {"id"}, "h4": {"id"}, "h5": {"id"}, "h6": {"id"}, "blockquote": nil, "ul": nil,
	"li": nil, "pre": nil,
	"hr": nil, "br": nil, "em": nil, "strong": nil, "del": nil, "table": nil, "thead": nil, "tbody": nil, "tr": nil,
	"ol": {"start"}, "code": {"class"}, "th": {"align"}, "td": {"align"},
	"a": {"href", "rel", "title"}, "img": {"src", "alt", "title", "loading"},
}

// unsafeIn parses rendered HTML as a browser does, in the body of a page, and returns what is not allowed in it.
func unsafeIn(h HTML) error {
	nodes, err := html.ParseFragment(strings.NewReader(string(h)),
		&html.Node{Type: html.ElementNode, Data: "body", DataAtom: 0x2804})
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := unsafeNode(n); err != nil {
			return err
		}
	}
	return nil
}

func unsafeNode(n *html.Node) error {
	switch n.Type {
	case html.TextNode:
		return nil
	case html.ElementNode:
	default:
		return fmt.Errorf("node of type %d: %q", n.Type, n.Data)
	}
	attributes, ok := allowed[n.Data]
	if !ok || n.Namespace != "" {
		return fmt.Errorf("element %s %s", n.Namespace, n.Data)
	}
	for _, a := range n.Attr {
		if !slices.Contains(attributes, a.Key) || a.Namespace != "" {
			return fmt.Errorf("attribute %s of %s", a.Key, n.Data)
		}
		if err := unsafeAttribute(a); err != nil {
			return err
		}
	}
	if n.Data == "a" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "rel" }) {
		return errors.New("link without rel")
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if err := unsafeNode(child); err != nil {
			return err
		}
	}
	return nil
}

func unsafeAttribute(a html.Attribute) error {
	var ok bool
	switch a.Key {
	case "title", "alt":
		ok = true
	case "id":
		ok = strings.HasPrefix(a.Val, "user-content-") && !strings.ContainsAny(a.Val, " \t\n\r\f\"'<>&")
	case "rel":
		ok = a.Val == "nofollow ugc noopener"
	case "loading":
		ok = a.Val == "lazy"
	case "start":
		_, err := strconv.Atoi(a.Val)
		ok = err == nil
	case "align":
		ok = slices.Contains([]string{"left", "center", "right"}, a.Val)
	case "class":
		ok = strings.HasPrefix(a.Val, "language-") && !strings.ContainsAny(a.Val, " \t\n\r\f")
	case "href", "src":
		u, err := url.Parse(a.Val)
		ok = err == nil &&
			(slices.Contains([]string{"http", "https"}, u.Scheme) || a.Key == "href" && u.Scheme == "mailto" ||
				u.Scheme == "" && u.Host == "" && !strings.HasPrefix(a.Val, "//") && !strings.Contains(a.Val, `\`))
		ok = ok && !(a.Key == "src" && (u.Scheme == "http" || u.Host == "" && u.RawQuery != ""))
	}
	if !ok {
		return fmt.Errorf("%s=%q", a.Key, a.Val)
	}
	return nil
}

// TestRender_Hostile renders every text of testdata/hostile.txt, which has one in each line, with \n for a line break.
func TestRender_Hostile(t *testing.T) {
	file, err := os.Open("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, n := bufio.NewScanner(file), 0
	for lines.Scan() {
		text := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(lines.Text())
		n++
		h, err := Render(t.Context(), text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if err := unsafeIn(h); err != nil {
			t.Errorf("%s\nrenders %s\nwhich has %v", text, h, err)
		}
	}
	if n < 100 || lines.Err() != nil {
		t.Errorf("read %d texts: %v", n, lines.Err())
	}
}

// TestSanitize_Hostile gives the same texts to the sanitizer alone, as if they were rendered HTML.
func TestSanitize_Hostile(t *testing.T) {
	texts, err := os.ReadFile("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(texts)) {
		h := HTML(policy.Sanitize(line))
		if err := unsafeIn(h); err != nil && !strings.Contains(err.Error(), "link without rel") &&
			!strings.Contains(err.Error(), "src=") && !strings.Contains(err.Error(), "href=") {
			t.Errorf("%s\nis sanitized to %s\nwhich has %v", line, h, err)
		}
	}
}

func TestUnsafeIn(t *testing.T) {
	for _, h := range []HTML{"<script>a</script>", "<p onclick=a>", "<a href='/a'>",
		"<a href='javascript:a' rel='nofollow ugc noopener'>",
		"<img src='http://a/b'>", "<img src='//a/b'>", "<svg><p>", "<p style='a:b'>", "<!-- a -->", "<code class='a'>",
		"<h1>a</h1>"} {
		if unsafeIn(h) == nil {
			t.Errorf("%s passes", h)
		}
	}
}

func FuzzRender(f *testing.F) {
	texts, err := os.ReadFile("testdata/hostile.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(texts)) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		h, err := Render(t.Context(), text)
		if err != nil {
			if !errors.As(err, new(*LimitError)) {
				t.Fatal(err)
			}
			return
		}
		if err := unsafeIn(h); err != nil {
			t.Errorf("%q renders %q, which has %v", text, h, err)
		}
		if excerpt := h.Excerpt(280); utf8.RuneCountInString(excerpt) > 280 || !utf8.ValidString(excerpt) {
			t.Errorf("%q has the excerpt %q", text, excerpt)
		}
	})
}
