package site

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// shell is the HTML that all pages of a front end have: its head and body without what is of one page.
type shell struct {
	start, middle, end string // before the end of the head; from there to the content; after the content
	title              string // of the blog
	policy             string // Content-Security-Policy
}

// The places in a shell, while it is parsed.
const (
	headMark    = "the head of the page"
	contentMark = "the content of the page"
)

// readShell reads the shell from a file of the front end. Its title, its description, and what it shows without
// JavaScript give way to those of pages. Its scripts may connect to more origins.
func readShell(dir fs.FS, name string, connect []string) (s shell, err error) {
	raw, err := fs.ReadFile(dir, name)
	if err != nil {
		return s, err
	}
	document, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	var head, root *html.Node
	var drop []*html.Node
	inline := map[atom.Atom][]string{} // hashes of scripts and styles
	for n := range document.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.DataAtom == atom.Head:
			head = n
		case n.DataAtom == atom.Title && n.Parent == head:
			if n.FirstChild != nil {
				s.title = strings.TrimSpace(n.FirstChild.Data)
			}
			drop = append(drop, n)
		case n.DataAtom == atom.Noscript,
			n.DataAtom == atom.Meta && attribute(n, "name") == "description":
			drop = append(drop, n)
		case attribute(n, "id") == "root":
			root = n
		case n.DataAtom == atom.Script && attribute(n, "src") == "", n.DataAtom == atom.Style:
			if n.FirstChild != nil {
				sum := sha256.Sum256([]byte(n.FirstChild.Data))
				hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
				inline[n.DataAtom] = append(inline[n.DataAtom], hash)
			}
		}
	}
	switch {
	case head == nil || root == nil:
		return s, fmt.Errorf("%s: there is no element with the id root", name)
	case s.title == "":
		return s, fmt.Errorf("%s: there is no title, which names the blog", name)
	}
	for _, n := range drop {
		n.Parent.RemoveChild(n)
	}
	head.AppendChild(&html.Node{Type: html.CommentNode, Data: headMark})
	root.AppendChild(&html.Node{Type: html.CommentNode, Data: contentMark})
	var out bytes.Buffer
	if err := html.Render(&out, document); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	var ok1, ok2 bool
	s.start, s.middle, ok1 = strings.Cut(out.String(), "<!--"+headMark+"-->")
	s.middle, s.end, ok2 = strings.Cut(s.middle, "<!--"+contentMark+"-->")
	if !ok1 || !ok2 {
		return s, fmt.Errorf("%s: the element with the id root is not in the body", name)
	}
	sources := func(element atom.Atom) string {
		return strings.Join(append([]string{"'self'"}, inline[element]...), " ")
	}
	s.policy = strings.Join([]string{"default-src 'self'", "script-src " + sources(atom.Script),
		"style-src " + sources(atom.Style), "connect-src " + strings.Join(append([]string{"'self'"}, connect...), " "),
		"img-src 'self' https: data: blob:", "object-src 'none'", "base-uri 'none'", "form-action 'self'",
		"frame-ancestors 'none'"}, "; ")
	return s, nil
}

// attribute returns the value of an attribute, "" without one.
func attribute(n *html.Node, name string) string {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return n.Attr[i].Val
}
