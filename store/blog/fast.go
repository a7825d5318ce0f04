package blog

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"byline/internal/jsonstring"
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

// fastItems decodes the items of a page, each of which starts as a copy of defaults. It returns false if
// the caller must use the fallback.
func fastItems[T any](body []byte, defaults T, read func(*fastReader, *T)) (items []T, ok bool) {
	if !utf8.Valid(body) || jsonstring.HasControls(body) {
		return nil, false
	}
	r := &fastReader{rest: string(body), before: '{'}
	r.text("_rid")
	r.take(`,"Documents":[`)
	count, _ := strconv.Atoi(strings.TrimSuffix(r.rest[strings.LastIndexByte(r.rest, ':')+1:], "}"))
	items = make([]T, 0, max(0, min(count, MaxPage+1)))
	for !r.fallback && !strings.HasPrefix(r.rest, "]") {
		if len(items) > 0 {
			r.take(",")
		}
		items, r.before = append(items, defaults), '{'
		read(r, &items[len(items)-1])
		r.take("}")
	}
	r.take("]")
	r.number("_count", 64)
	r.take("}")
	return items, !r.fallback && r.rest == ""
}

// fastReadable is an item whose properties are decoded in any order. A type that embeds one
// needs its own method.
type fastReadable interface {
	// readProperty reads the value of a property, and reports whether the item has it.
	readProperty(r *fastReader, name string) bool
}

// fastItem decodes an item. It returns false if the caller must use the fallback. The last of repeated
// properties counts.
func fastItem(raw []byte, item fastReadable) bool {
	if !utf8.Valid(raw) || jsonstring.HasControls(raw) {
		return false
	}
	r := &fastReader{rest: string(raw), whole: true}
	r.take("{")
	for first := true; !r.fallback && r.rest != "}"; first = false {
		if !first {
			r.take(",")
		}
		name := r.stringRef()
		r.take(":")
		if !item.readProperty(r, name) {
			r.skip()
		}
	}
	return !r.fallback
}

// take consumes next.
func (r *fastReader) take(next string) {
	rest, ok := strings.CutPrefix(r.rest, next)
	r.rest, r.fallback = rest, r.fallback || !ok
}

// has consumes the name of the next property if that is name, and reports whether it is.
func (r *fastReader) has(name string) bool {
	s, n := r.rest, len(name)+4
	if len(s) < n || s[0] != r.before || s[1] != '"' || s[2:n-2] != name || s[n-2:n] != `":` {
		return false
	}
	r.rest, r.before = s[n:], ','
	return true
}

func (r *fastReader) must(name string) { r.fallback = !r.has(name) || r.fallback }

func (r *fastReader) text(name string) string {
	r.must(name)
	return r.stringValue()
}

// stringValue consumes a string.
func (r *fastReader) stringValue() string {
	text := r.stringRef()
	if r.whole && len(text) <= maxCloned {
		return strings.Clone(text)
	}
	return text
}

// maxCloned is the length of the longest cloned strings, in bytes: ids, names and dates.
const maxCloned = 64

// stringRef consumes a string. The result may share the memory of the input.
func (r *fastReader) stringRef() string {
	r.take(`"`)
	end := strings.IndexByte(r.rest, '"')
	if end < 0 {
		r.fallback = true
		return ""
	}
	text := r.rest[:end]
	if strings.IndexByte(text, '\\') >= 0 {
		return r.escaped()
	}
	r.rest = r.rest[end+1:]
	return text
}

// escaped consumes a string with escapes, from after its opening quote.
func (r *fastReader) escaped() string {
	end := stringEnd(r.rest)
	text := r.rest[:end]
	r.rest = r.rest[end:]
	r.take(`"`)
	if plain, ok := unescape(text); ok {
		return plain
	}
	plain, err := jsontext.AppendUnquote(nil, `"`+text+`"`)
	r.fallback = r.fallback || err != nil
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

func (r *fastReader) date(name string) Date {
	r.must(name)
	return r.dateValue()
}

// dateOrNil consumes an optional date.
func (r *fastReader) dateOrNil(name string) *Date {
	if !r.has(name) {
		return nil
	}
	d := r.dateValue()
	return &d
}

// dateValue consumes a date.
func (r *fastReader) dateValue() Date {
	escaped := strings.IndexByte(r.rest[:min(len(r.rest), len(DateLayout)+2)], '\\') >= 0
	text := r.stringValue()
	r.fallback = r.fallback || escaped || !ValidDate(text)
	return Date(text)
}

// stringsOrNil consumes an optional list of strings.
func (r *fastReader) stringsOrNil(name string) []string {
	if !r.has(name) {
		return nil
	}
	return r.stringsValue()
}

// stringsValue consumes a list of strings.
func (r *fastReader) stringsValue() []string {
	all := []string{}
	r.eachString(func() { all = append(all, r.stringValue()) })
	return all
}

// eachString consumes a list of strings, each with consume.
func (r *fastReader) eachString(consume func()) {
	r.take("[")
	for first := true; !r.fallback && !strings.HasPrefix(r.rest, "]"); first = false {
		if !first {
			r.take(",")
		}
		consume()
	}
	r.take("]")
}

func (r *fastReader) number(name string, bits int) int64 {
	r.must(name)
	return r.intValue(bits)
}

// numberOrZero consumes an optional number.
func (r *fastReader) numberOrZero(name string, bits int) int64 {
	if !r.has(name) {
		return 0
	}
	return r.intValue(bits)
}

// intValue consumes a non-negative integer of at most so many bits, including the sign.
func (r *fastReader) intValue(bits int) int64 {
	end, n := 0, int64(0)
	for end < len(r.rest) && '0' <= r.rest[end] && r.rest[end] <= '9' {
		n = 10*n + int64(r.rest[end]-'0') // may overflow
		end++
	}
	ok := end > 0 && n>>(bits-1) == 0
	if end > 18 { // longer numbers may overflow
		var err error
		n, err = strconv.ParseInt(r.rest[:end], 10, bits)
		ok = err == nil
	}
	r.fallback = r.fallback || !ok || end > 1 && r.rest[0] == '0'
	r.rest = r.rest[end:]
	return n
}

func (r *fastReader) flag(name string) bool {
	r.must(name)
	return r.boolValue()
}

// boolValue consumes a boolean.
func (r *fastReader) boolValue() bool {
	is := strings.HasPrefix(r.rest, "true")
	r.take(strconv.FormatBool(is))
	return is
}

// skipString consumes a string without decoding it.
func (r *fastReader) skipString() {
	end := 1
	for ; end < len(r.rest) && r.rest[end] != '"'; end++ {
		if r.rest[end] != '\\' {
			continue
		}
		if end++; end == len(r.rest) || strings.IndexByte(`"\/bfnrt`, r.rest[end]) < 0 {
			r.stringRef()
			return
		}
	}
	r.rest, r.fallback = r.rest[min(end, len(r.rest)):], r.fallback || end == len(r.rest)
	r.take(`"`)
}

// skip consumes a string, a number, a boolean or a list of strings.
func (r *fastReader) skip() {
	switch {
	case strings.HasPrefix(r.rest, `"`):
		r.skipString()
	case strings.HasPrefix(r.rest, "["):
		r.eachString(func() {
			if r.fallback = r.fallback || !strings.HasPrefix(r.rest, `"`); !r.fallback {
				r.skipString()
			}
		})
	case strings.HasPrefix(r.rest, "t"), strings.HasPrefix(r.rest, "f"):
		r.boolValue()
	default:
		r.intValue(64)
	}
}
