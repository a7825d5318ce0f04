package blog

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// fastReader is the fast path for JSON as Cosmos DB writes it, without white space: a page of a query,
// with the properties in the order of the SELECT clause, or a whole item, with its properties in any order.
// Any other input sets fallback: the result is then invalid, and the input is decoded by package json, which
// takes several times as long. Strings share one copy of the input; short strings of whole items are
// cloned, so that a kept id does not keep the item in memory.
type fastReader struct {
	rest     string
	whole    bool // the input is an item, not a page
	before   byte // the byte before the next property: '{' before the first, otherwise ','
	fallback bool
}

// fastItems decodes the items of a page, each of which starts as a copy of blank. It returns false if
// the caller must use the fallback.
func fastItems[T any](body []byte, blank T, read func(*fastReader, *T)) (items []T, ok bool) {
	if !utf8.Valid(body) || hasControls(body) {
		return nil, false
	}
	p := &fastReader{rest: string(body), before: '{'}
	p.text("_rid")
	p.take(`,"Documents":[`)
	count, _ := strconv.Atoi(strings.TrimSuffix(p.rest[strings.LastIndexByte(p.rest, ':')+1:], "}"))
	items = make([]T, 0, max(0, min(count, MaxPage+1)))
	for !p.fallback && !strings.HasPrefix(p.rest, "]") {
		if len(items) > 0 {
			p.take(",")
		}
		items, p.before = append(items, blank), '{'
		read(p, &items[len(items)-1])
		p.take("}")
	}
	p.take("]")
	p.number("_count", 64)
	p.take("}")
	return items, !p.fallback && p.rest == ""
}

// fastReadable is an item whose properties are decoded in any order. A type that embeds one
// needs its own method.
type fastReadable interface {
	// readProperty reads the value of a property, and reports whether the item has it.
	readProperty(p *fastReader, name string) bool
}

// fastItem decodes an item. It returns false if the caller must use the fallback. The last of repeated
// properties counts.
func fastItem(raw []byte, item fastReadable) bool {
	if !utf8.Valid(raw) || hasControls(raw) {
		return false
	}
	p := &fastReader{rest: string(raw), whole: true}
	p.take("{")
	for first := true; !p.fallback && p.rest != "}"; first = false {
		if !first {
			p.take(",")
		}
		name := p.stringRef()
		p.take(":")
		if !item.readProperty(p, name) {
			p.skip()
		}
	}
	return !p.fallback
}

// hasControls reports whether b has control characters.
func hasControls(b []byte) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		if w := binary.LittleEndian.Uint64(b); (w-each*' ')&^w&high != 0 {
			return true
		}
	}
	return slices.ContainsFunc(b, func(c byte) bool { return c < ' ' })
}

// take consumes next.
func (p *fastReader) take(next string) {
	rest, ok := strings.CutPrefix(p.rest, next)
	p.rest, p.fallback = rest, p.fallback || !ok
}

// has consumes the name of the next property if that is name, and reports whether it is.
func (p *fastReader) has(name string) bool {
	s, n := p.rest, len(name)+4
	if len(s) < n || s[0] != p.before || s[1] != '"' || s[2:n-2] != name || s[n-2:n] != `":` {
		return false
	}
	p.rest, p.before = s[n:], ','
	return true
}

func (p *fastReader) must(name string) { p.fallback = !p.has(name) || p.fallback }

func (p *fastReader) text(name string) string {
	p.must(name)
	return p.stringValue()
}

// stringValue consumes a string.
func (p *fastReader) stringValue() string {
	text := p.stringRef()
	if p.whole && len(text) <= maxCloned {
		return strings.Clone(text)
	}
	return text
}

// maxCloned is the length of the longest cloned strings, in bytes: ids, names and dates.
const maxCloned = 64

// stringRef consumes a string. The result may share the memory of the input.
func (p *fastReader) stringRef() string {
	p.take(`"`)
	end := strings.IndexByte(p.rest, '"')
	if end < 0 {
		p.fallback = true
		return ""
	}
	text := p.rest[:end]
	if strings.IndexByte(text, '\\') >= 0 {
		return p.escaped()
	}
	p.rest = p.rest[end+1:]
	return text
}

// escaped consumes a string with escapes, from after its opening quote.
func (p *fastReader) escaped() string {
	end := stringEnd(p.rest)
	text := p.rest[:end]
	p.rest = p.rest[end:]
	p.take(`"`)
	if plain, ok := unescape(text); ok {
		return plain
	}
	plain, err := jsontext.AppendUnquote(nil, `"`+text+`"`)
	p.fallback = p.fallback || err != nil
	return string(plain)
}

// stringEnd returns the index of the quote that ends a string, or the length of s without one.
func stringEnd(s string) int {
	for end := 0; ; end++ {
		quote := strings.IndexByte(s[end:], '"')
		if quote < 0 {
			return len(s)
		}
		end += quote
		escapes := end
		for escapes > 0 && s[escapes-1] == '\\' {
			escapes--
		}
		if (end-escapes)%2 == 0 {
			return end
		}
	}
}

// unescape resolves two-character escapes. It returns false if text has any other.
func unescape(text string) (plain string, ok bool) {
	var b strings.Builder
	b.Grow(len(text))
	for {
		escape := strings.IndexByte(text, '\\')
		if escape < 0 {
			b.WriteString(text)
			return b.String(), true
		}
		if escape+1 == len(text) {
			return "", false
		}
		which := strings.IndexByte(`"\/bfnrt`, text[escape+1])
		if which < 0 {
			return "", false
		}
		b.WriteString(text[:escape])
		b.WriteByte("\"\\/\b\f\n\r\t"[which])
		text = text[escape+2:]
	}
}

func (p *fastReader) date(name string) Date {
	p.must(name)
	return p.dateValue()
}

// dateOrNil consumes an optional date.
func (p *fastReader) dateOrNil(name string) *Date {
	if !p.has(name) {
		return nil
	}
	d := p.dateValue()
	return &d
}

// dateValue consumes a date.
func (p *fastReader) dateValue() Date {
	escaped := strings.IndexByte(p.rest[:min(len(p.rest), len(DateLayout)+2)], '\\') >= 0
	text := p.stringValue()
	p.fallback = p.fallback || escaped || !ValidDate(text)
	return Date(text)
}

func (p *fastReader) number(name string, bits int) int64 {
	p.must(name)
	return p.intValue(bits)
}

// intValue consumes a non-negative integer of at most so many bits, including the sign.
func (p *fastReader) intValue(bits int) int64 {
	end, n := 0, int64(0)
	for end < len(p.rest) && '0' <= p.rest[end] && p.rest[end] <= '9' {
		n = 10*n + int64(p.rest[end]-'0') // may overflow
		end++
	}
	ok := end > 0 && n>>(bits-1) == 0
	if end > 18 { // longer numbers may overflow
		var err error
		n, err = strconv.ParseInt(p.rest[:end], 10, bits)
		ok = err == nil
	}
	p.fallback = p.fallback || !ok || end > 1 && p.rest[0] == '0'
	p.rest = p.rest[end:]
	return n
}

func (p *fastReader) flag(name string) bool {
	p.must(name)
	return p.boolValue()
}

// boolValue consumes a boolean.
func (p *fastReader) boolValue() bool {
	is := strings.HasPrefix(p.rest, "true")
	p.take(strconv.FormatBool(is))
	return is
}

// skipString consumes a string without decoding it.
func (p *fastReader) skipString() {
	end := 1
	for ; end < len(p.rest) && p.rest[end] != '"'; end++ {
		if p.rest[end] != '\\' {
			continue
		}
		if end++; end == len(p.rest) || strings.IndexByte(`"\/bfnrt`, p.rest[end]) < 0 {
			p.stringRef()
			return
		}
	}
	p.rest, p.fallback = p.rest[min(end, len(p.rest)):], p.fallback || end == len(p.rest)
	p.take(`"`)
}

// skip consumes a string, a number or a boolean.
func (p *fastReader) skip() {
	switch {
	case strings.HasPrefix(p.rest, `"`):
		p.skipString()
	case strings.HasPrefix(p.rest, "t"), strings.HasPrefix(p.rest, "f"):
		p.boolValue()
	default:
		p.intValue(64)
	}
}
