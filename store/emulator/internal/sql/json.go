package sql

import (
	"bytes"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions here walk JSON text that is known to be valid. On text that is
// not they return something, and never read out of bounds.

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// StringEnd returns the index behind the string that opens at i.
func StringEnd(b []byte, i int) int {
	i++
	for i < len(b) {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b)
		}
		i += j
		k := i - 1
		for b[k] == '\\' { // the opening quote ends this at the latest
			k--
		}
		if (i-k)&1 == 1 {
			return i + 1
		}
		i++
	}
	return len(b)
}

// valueEnd returns the index behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return StringEnd(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = StringEnd(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// members iterates over an object; i starts behind the brace.
type members struct {
	b       []byte
	i       int
	escaped bool // the last key has escapes
}

// next returns a key, without its quotes and still escaped, and its value's span.
func (m *members) next() (key []byte, start, end int, ok bool) {
	b := m.b
	i := skipSpace(b, m.i)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		return nil, 0, 0, false
	}
	i++
	from := i
	m.escaped = false
	for i < len(b) && b[i] != '"' {
		if b[i] == '\\' {
			m.escaped = true
			i++
		}
		i++
	}
	if i >= len(b) {
		return nil, 0, 0, false
	}
	key = b[from:i]
	i = skipSpace(b, i+1)
	if i >= len(b) || b[i] != ':' {
		return nil, 0, 0, false
	}
	start = skipSpace(b, i+1)
	end = valueEnd(b, start)
	if start >= end {
		return nil, 0, 0, false
	}
	m.i = end
	return key, start, end, true
}

// is reports whether the key that next returned is name.
func (m *members) is(key []byte, name string) bool {
	if m.escaped {
		key = unescape(nil, key)
	}
	return string(key) == name
}

// elements iterates over an array; i starts behind the bracket.
type elements struct {
	b []byte
	i int
}

func (s *elements) next() (raw []byte, ok bool) {
	i := skipSpace(s.b, s.i)
	if i < len(s.b) && s.b[i] == ',' {
		i = skipSpace(s.b, i+1)
	}
	if i >= len(s.b) || s.b[i] == ']' {
		return nil, false
	}
	end := valueEnd(s.b, i)
	if end <= i {
		return nil, false
	}
	s.i = end
	return s.b[i:end], true
}

// Child is a member of an object or an element of an array. It shares their bytes.
type Child struct {
	Name       []byte // of a member: without its quotes and still escaped
	Value      []byte
	Start, End int // where Value stands in the object or array
}

// Children returns what an object or array holds, in its order. raw is valid JSON,
// without space before it.
func Children(raw []byte) iter.Seq[Child] {
	return func(yield func(Child) bool) {
		if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
			return
		}
		m, s := members{b: raw, i: 1}, elements{b: raw, i: 1}
		for {
			var c Child
			var ok bool
			if raw[0] == '{' {
				if c.Name, c.Start, c.End, ok = m.next(); ok {
					c.Value = raw[c.Start:c.End]
				}
			} else if c.Value, ok = s.next(); ok {
				c.Start, c.End = s.i-len(c.Value), s.i
			}
			if !ok || !yield(c) {
				return
			}
		}
	}
}

// member returns the value of the first member called name, nil if there is none.
func member(raw []byte, name string) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	m := members{b: raw, i: 1}
	for {
		key, start, end, ok := m.next()
		if !ok {
			return nil
		}
		if m.is(key, name) {
			return raw[start:end]
		}
	}
}

// element returns the value at index n, nil if there is none.
func element(raw []byte, n int) []byte {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	s := elements{b: raw, i: 1}
	for {
		v, ok := s.next()
		if !ok || n == 0 {
			return v
		}
		n--
	}
}

// unescape appends the text of a JSON string's inside. A surrogate that stands
// alone is kept, as three bytes, so that different strings stay different.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) && i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(s[i+3:])); pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			dst = appendRune(dst, r)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst
}

// hex4 reads four hexadecimal digits; it returns -1 if there are none.
func hex4(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendRune is utf8.AppendRune that lets surrogates through.
func appendRune(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// lone returns the surrogate that stands at the beginning of s, 0 if none does.
func lone(s []byte) rune {
	if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
	}
	return 0
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends text as a JSON string.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c != 0xED {
			continue
		}
		r := rune(c)
		if c == 0xED {
			if r = lone(text[i:]); r == 0 {
				continue
			}
		}
		dst = append(dst, text[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			if c == 0xED {
				i += 2
			}
		}
		from = i + 1
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}
