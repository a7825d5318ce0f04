package markdown

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// safeTree changes a syntax tree before it is rendered. Headings are one level lower, as a page has a heading of its
// own, and have ids, to which links on the page lead. Addresses are only those that isLink and isImage allow: any other
// link is shown as its text, and any other image as its description. An invalid address is shown as well.
type safeTree struct{}

// Transform implements parser.ASTTransformer.
func (safeTree) Transform(root *ast.Document, in text.Reader, _ parser.Context) {
	var unsafe []ast.Node
	ids := map[string]int{}
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(n.Level+1, 6)
			if id := headingID(textOf(n, in.Source()), ids); id != "" {
				n.SetAttributeString("id", []byte(id))
			}
		case *ast.FencedCodeBlock:
			cutLanguage(n, in.Source())
		case *ast.Link:
			n.SetAttributeString("rel", rel)
			n.Destination = linkTo(n.Destination)
			if !isLink(n.Destination) {
				unsafe = append(unsafe, n)
			}
		case *ast.AutoLink:
			n.SetAttributeString("rel", rel)
			if n.AutoLinkType == ast.AutoLinkURL && !isLink(n.URL(in.Source())) {
				unsafe = append(unsafe, n)
			}
		case *ast.Image:
			n.SetAttributeString("loading", []byte("lazy"))
			if !isImage(n.Destination) {
				unsafe = append(unsafe, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range unsafe {
		unwrap(n, in.Source())
	}
}

// rel is the relation of every link: writers are users, not the publisher of the page.
var rel = []byte("nofollow ugc noopener")

// unwrap replaces a node by its children, or an automatic link by its text. An address that no browser can open
// follows.
func unwrap(n ast.Node, source []byte) {
	parent := n.Parent()
	var address []byte
	switch n := n.(type) {
	case *ast.AutoLink:
		parent.ReplaceChild(parent, n, ast.NewString(n.Label(source)))
		return
	case *ast.Link:
		address = n.Destination
	case *ast.Image:
		address = n.Destination
	}
	if _, ok := parseAddress(address); !ok {
		parent.InsertAfter(parent, n, ast.NewString(fmt.Appendf(nil, " (%s)", address)))
	}
	for child := n.FirstChild(); child != nil; child = n.FirstChild() {
		n.RemoveChild(n, child)
		parent.InsertBefore(parent, n, child)
	}
	parent.RemoveChild(parent, n)
}

// isLink reports whether an address may be that of a link: http, https, mailto, a path of this site, or a place on
// the page.
func isLink(address []byte) bool {
	u, ok := parseAddress(address)
	return ok && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto" || isLocal(u) && *u != url.URL{})
}

// isImage reports whether an address may be that of an image: https, or a path of this site. A path has no query, which
// everyone who sees the image would execute.
func isImage(address []byte) bool {
	u, ok := parseAddress(address)
	return ok && (u.Scheme == "https" && u.Host != "" || isLocal(u) && u.Path != "" && u.RawQuery == "")
}

// parseAddress parses an address as it is rendered: without the escapes and references of Markdown, with those of URLs.
func parseAddress(address []byte) (*url.URL, bool) {
	attribute := append([]byte(`="`), util.URLEscape(address, true)...)
	u, err := url.Parse(string(openIPv6(attribute)[len(`="`):]))
	return u, err == nil
}

// openIPv6 opens the brackets around hosts, which goldmark escapes, in the attributes of HTML.
func openIPv6(html []byte) []byte {
	if !bytes.Contains(html, []byte("%5B")) {
		return html
	}
	return escapedIPv6.ReplaceAll(html, []byte("$1[$2]"))
}

var escapedIPv6 = regexp.MustCompile(`(="[a-zA-Z]+://(?:[^"/@]*@)?)%5B([0-9A-Fa-f:.]+)%5D`)

// idPrefix distinguishes the ids of headings from those of the page that shows the text.
const idPrefix = "user-content-"

// headingID returns the id of a heading: the letters and digits of its text, in lower case, with hyphens for spaces. A
// number follows if another heading has it. It returns "" for a heading without letters and digits. used has the ids so
// far, with the last number of each.
func headingID(text string, used map[string]int) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.N):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
	if strings.Trim(name, "-_") == "" {
		return ""
	}
	id := idPrefix + name
	for _, taken := used[id]; taken; _, taken = used[id] {
		used[idPrefix+name]++
		id = idPrefix + name + "-" + strconv.Itoa(used[idPrefix+name])
	}
	used[id] = 0
	return id
}

// linkTo returns the address of a link. One to a heading of the text, such as "#a-title", is that of its id.
func linkTo(address []byte) []byte {
	name, ok := bytes.CutPrefix(address, []byte("#"))
	if !ok || len(name) == 0 || bytes.HasPrefix(name, []byte(idPrefix)) {
		return address
	}
	return append([]byte("#"+idPrefix), name...)
}

// textOf returns the text in a node.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(resolved(n.Segment.Value(source)))
			}
			if entering && (n.SoftLineBreak() || n.HardLineBreak()) {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// resolved returns a text without escapes and references.
func resolved(text []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(text)))
}

// cutLanguage cuts the name of the language of a code block before what is not part of it: "js{1,3}" is "js".
func cutLanguage(n *ast.FencedCodeBlock, source []byte) {
	if n.Info == nil {
		return
	}
	if i := bytes.IndexFunc(n.Info.Segment.Value(source), notOfLanguage); i >= 0 {
		n.Info.Segment.Stop = n.Info.Segment.Start + i
	}
}

func notOfLanguage(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.N) && !strings.ContainsRune("+#._-", r)
}

// isLocal reports whether an address is a path of this site or a place on the page. Browsers take a backslash for a
// slash, and //host for another site.
func isLocal(u *url.URL) bool {
	if u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return false
	}
	return u.Path == "" || u.Path[0] == '/' && !strings.HasPrefix(u.Path, "//") && !strings.Contains(u.Path, `\`)
}
