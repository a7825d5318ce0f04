package markdown

import (
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// safeTree changes a syntax tree before it is rendered. Headings are one level lower, as a page has a heading of its
// own. Addresses are only those that isLink and isImage allow: any other link is shown as its text, and any other image
// as its description.
type safeTree struct{}

// Transform implements parser.ASTTransformer.
func (safeTree) Transform(root *ast.Document, in text.Reader, _ parser.Context) {
	var unsafe []ast.Node
	size := 0 // of the addresses and titles so far: many links can refer to one definition
	fits := func(address, title []byte) bool {
		size += len(address) + len(title)
		return size <= maxAddresses
	}
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			n.Level = min(n.Level+1, 6)
		case *ast.Link:
			n.SetAttributeString("rel", rel)
			if !fits(n.Destination, n.Title) || !isLink(n.Destination) {
				unsafe = append(unsafe, n)
			}
		case *ast.AutoLink:
			n.SetAttributeString("rel", rel)
			if n.AutoLinkType == ast.AutoLinkURL && !isLink(n.URL(in.Source())) {
				unsafe = append(unsafe, n)
			}
		case *ast.Image:
			n.SetAttributeString("loading", []byte("lazy"))
			if !fits(n.Destination, n.Title) || !isImage(n.Destination) {
				unsafe = append(unsafe, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range unsafe {
		unwrap(n, in.Source())
	}
}

// maxAddresses is the greatest length of all addresses and titles together, in bytes. Links beyond it are their text.
const maxAddresses = 200_000

// rel is the relation of every link: writers are users, not the publisher of the page.
var rel = []byte("nofollow ugc noopener")

// unwrap replaces a node by its children, or an automatic link by its text.
func unwrap(n ast.Node, source []byte) {
	parent := n.Parent()
	if link, ok := n.(*ast.AutoLink); ok {
		parent.ReplaceChild(parent, n, ast.NewString(link.Label(source)))
		return
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
	u, ok := parse(address)
	return ok && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto" || isLocal(u))
}

// isImage reports whether an address may be that of an image: https, or a path of this site. A path has no query, which
// everyone who sees the image would execute.
func isImage(address []byte) bool {
	u, ok := parse(address)
	return ok && (u.Scheme == "https" && u.Host != "" || isLocal(u) && u.Path != "" && u.RawQuery == "")
}

// parse parses an address, after the escapes and references in it, as it is rendered.
func parse(address []byte) (*url.URL, bool) {
	address = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(address)))
	u, err := url.Parse(string(address))
	return u, err == nil
}

// isLocal reports whether an address is a path of this site or a place on the page. Browsers take a backslash for a
// slash, and //host for another site.
func isLocal(u *url.URL) bool {
	if u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil {
		return false
	}
	return u.Path == "" || u.Path[0] == '/' && !strings.HasPrefix(u.Path, "//") && !strings.Contains(u.Path, `\`)
}
