package markdown

import (
	"bytes"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// bareLinks links addresses in the text, as of section 6.9 of GitHub Flavored Markdown: of the web, with or without a
// protocol, and of e-mail. Like cmark-gfm it takes letters of all scripts, hosts without a dot if there is a protocol,
// and protocols after any other character than a letter or digit of ASCII. Scripts without spaces put their punctuation
// right after an address, which ends there.
type bareLinks struct{}

// Trigger implements parser.InlineParser: "https:", "www." and "name@" are found by their ends.
func (bareLinks) Trigger() []byte { return []byte{':', '.', '@'} }

// Parse implements parser.InlineParser.
func (bareLinks) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if pc.IsInLinkLabel() {
		return nil
	}
	line, segment := block.PeekLine()
	before := unlinked(parent, block.Source(), segment.Start)
	kind, protocol := ast.AutoLinkURL, []byte(nil)
	start, end := 0, 0 // of the link: before the trigger, and after it
	switch line[0] {
	case ':':
		start, end = webLink(before, line)
	case '.':
		start, end = wwwLink(before, line)
		protocol = []byte("http")
	case '@':
		start, end = mailLink(before, line)
		kind = ast.AutoLinkEmail
	}
	if end == 0 {
		return nil
	}
	cutLast(parent, pc, segment.Start-start)
	block.Advance(end)
	link := ast.NewAutoLink(kind, ast.NewTextSegment(text.NewSegment(segment.Start-start, segment.Start+end)))
	link.Protocol = protocol
	return link
}

// unlinked returns what is before a position on its line and is text so far.
func unlinked(parent ast.Node, source []byte, end int) []byte {
	start := end
	for n := parent.LastChild(); n != nil && end-start < 100; n = n.PreviousSibling() {
		var s text.Segment
		switch n := n.(type) {
		case *ast.Text:
			if n.SoftLineBreak() || n.HardLineBreak() {
				return source[start:end]
			}
			s = n.Segment
		case *parser.Delimiter:
			s = n.Segment
		}
		if s.Stop != start || s.Padding > 0 {
			break
		}
		start = s.Start
	}
	return source[start:end]
}

// cutLast removes the text from a position on from the end of a node.
func cutLast(parent ast.Node, pc parser.Context, start int) {
	for n := parent.LastChild(); n != nil; n = parent.LastChild() {
		switch n := n.(type) {
		case *parser.Delimiter:
			if n.Segment.Stop <= start {
				return
			}
			pc.RemoveDelimiter(n) // it becomes text
			continue
		case *ast.Text:
			if n.Segment.Stop <= start {
				return
			}
			if n.Segment.Start < start {
				n.Segment.Stop = start
				return
			}
			parent.RemoveChild(parent, n)
		default:
			return
		}
	}
}

// webLink returns how much of the text before and after a colon is an address with a protocol.
func webLink(before, line []byte) (start, end int) {
	rest, ok := bytes.CutPrefix(line, []byte("://"))
	if !ok {
		return 0, 0
	}
	protocol := lastBytes(before, isLetter)
	if p := strings.ToLower(string(protocol)); p != "http" && p != "https" ||
		len(before) > len(protocol) && isDigit(before[len(before)-len(protocol)-1]) {
		return 0, 0
	}
	host := hostLength(rest)
	if host == 0 {
		return 0, 0
	}
	return len(protocol), len("://") + addressLength(rest, host)
}

// wwwLink returns how much of the text before and after a dot is an address that begins with "www.".
func wwwLink(before, line []byte) (start, end int) {
	const www = "www"
	before, ok := bytes.CutSuffix(before, []byte(www))
	if last, _ := utf8.DecodeLastRune(before); !ok ||
		len(before) > 0 && last < utf8.RuneSelf && !strings.ContainsRune(" \t*_~(", last) {
		return 0, 0
	}
	host := hostLength(line[1:])
	if host == 0 {
		return 0, 0
	}
	return len(www), addressLength(line, 1+host)
}

// mailLink returns how much of the text before and after an @ is an address of e-mail.
func mailLink(before, line []byte) (start, end int) {
	name := lastBytes(before, func(c byte) bool {
		return isLetter(c) || isDigit(c) || strings.IndexByte(".-_+", c) >= 0
	})
	end = 1
	for end < len(line) && (isLetter(line[end]) || isDigit(line[end]) || strings.IndexByte(".-_", line[end]) >= 0) {
		end++
	}
	host := bytes.TrimRight(line[1:end], ".")
	if len(name) == 0 || len(host) == 0 || !bytes.Contains(host, []byte(".")) || bytes.HasPrefix(host, []byte(".")) ||
		strings.IndexByte("-_", host[len(host)-1]) >= 0 {
		return 0, 0
	}
	return len(name), 1 + len(host)
}

// hostLength returns the length of the host at the beginning of a text, 0 without one: names of letters, digits,
// hyphens and, but for the last two, underscores; or an address of IPv6 in brackets.
func hostLength(address []byte) int {
	if len(address) > 0 && address[0] == '[' {
		end := bytes.IndexByte(address, ']')
		if ip, err := netip.ParseAddr(string(address[1:max(1, end)])); err != nil || ip.Zone() != "" {
			return 0
		}
		return end + 1
	}
	end := 0
	for end < len(address) {
		r, size := utf8.DecodeRune(address[end:])
		if !strings.ContainsRune("-_.", r) && !unicode.In(r, unicode.L, unicode.M, unicode.N) {
			break
		}
		end += size
	}
	names := bytes.Split(bytes.TrimRight(address[:end], "."), []byte("."))
	for i, name := range names {
		if len(name) == 0 || i >= len(names)-2 && bytes.Contains(name, []byte("_")) {
			return 0
		}
	}
	return end
}

// addressLength returns the length of the address at the beginning of a text: up to a space, <, or punctuation of
// Chinese and Japanese, without the punctuation of the sentence at its end. Its host has the given length.
func addressLength(line []byte, host int) int {
	end := host
	for end < len(line) && (end > host || strings.IndexByte("/?#:@", line[end]) >= 0) {
		r, size := utf8.DecodeRune(line[end:])
		if r == '<' || unicode.IsSpace(r) || unicode.IsControl(r) || isWidePunctuation(r) {
			break
		}
		end += size
	}
	opened, closed := bytes.Count(line[:end], []byte("(")), bytes.Count(line[:end], []byte(")"))
	for end > 0 {
		last, size := utf8.DecodeLastRune(line[:end])
		switch {
		case last == ')' && closed > opened:
			closed--
		case last == ';':
			name := lastBytes(line[:end-1], func(c byte) bool { return isLetter(c) || isDigit(c) })
			if size += len(name) + 1; len(name) == 0 || line[end-size] != '&' {
				return end
			}
		case strings.ContainsRune("?!.,:*_~'\"", last):
		case last >= utf8.RuneSelf && unicode.In(last, unicode.Po, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf):
		default:
			return end
		}
		end -= size
	}
	return end
}

// isWidePunctuation reports whether a character is punctuation of Chinese or Japanese that ends a sentence or is a
// bracket.
func isWidePunctuation(r rune) bool {
	return (0x3000 <= r && r <= 0x303F || 0xFF00 <= r && r <= 0xFF65) &&
		unicode.In(r, unicode.Po, unicode.Ps, unicode.Pe, unicode.Zs)
}

// lastBytes returns the end of a text, as far as its bytes are of a kind.
func lastBytes(text []byte, is func(byte) bool) []byte {
	start := len(text)
	for start > 0 && is(text[start-1]) {
		start--
	}
	return text[start:]
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// taskBoxes parses the boxes of task lists: section 5.3 of GitHub Flavored Markdown, with the space after the box.
type taskBoxes struct{}

// Trigger implements parser.InlineParser.
func (taskBoxes) Trigger() []byte { return []byte{'['} }

// Parse implements parser.InlineParser.
func (taskBoxes) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item := parent.Parent()
	if item == nil || item.Kind() != ast.KindListItem || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	line, _ := block.PeekLine()
	if len(line) < 4 || line[2] != ']' || !util.IsSpace(line[3]) || !util.IsSpace(line[1]) && line[1]|0x20 != 'x' {
		return nil
	}
	block.Advance(len("[x]"))
	block.SkipSpaces()
	return extensions.NewTaskCheckBox(!util.IsSpace(line[1]))
}
