// Package jsonpart iterates over the members and elements of JSON text without copying them. The text
// must be valid: for invalid text the results are unspecified, but no read is out of bounds.
package jsonpart

import (
	"bytes"
	"iter"
)

// SkipSpace returns the index of the first byte from i on that is not white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// StringEnd returns the index after the string whose opening quote is at i.
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

// valueEnd returns the index after the value that begins at i.
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

// Members iterates over an object.
type Members struct {
	Text    []byte
	At      int  // after the opening brace or the previous member
	Escaped bool // the last name has escapes
}

// Next returns the next name, without quotes and still escaped, and the span of its value.
func (m *Members) Next() (name []byte, start, end int, ok bool) {
	b := m.Text
	i := SkipSpace(b, m.At)
	if i < len(b) && b[i] == ',' {
		i = SkipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '"' {
		return nil, 0, 0, false
	}
	i++
	from := i
	m.Escaped = false
	for i < len(b) && b[i] != '"' {
		if b[i] == '\\' {
			m.Escaped = true
			i++
		}
		i++
	}
	if i >= len(b) {
		return nil, 0, 0, false
	}
	name = b[from:i]
	i = SkipSpace(b, i+1)
	if i >= len(b) || b[i] != ':' {
		return nil, 0, 0, false
	}
	start = SkipSpace(b, i+1)
	end = valueEnd(b, start)
	if start >= end {
		return nil, 0, 0, false
	}
	m.At = end
	return name, start, end, true
}

// Closed reports whether the object, and with it the text, ends after the member that Next returned
// last: it has no more members and is not truncated.
func (m *Members) Closed() bool { return closed(m.Text, m.At, '}') }

func closed(b []byte, at int, with byte) bool {
	i := SkipSpace(b, at)
	return i == len(b)-1 && b[i] == with
}

// Elements iterates over an array.
type Elements struct {
	Text []byte
	At   int // after the opening bracket or the previous element
}

// Next returns the next element.
func (s *Elements) Next() (raw []byte, ok bool) {
	i := SkipSpace(s.Text, s.At)
	if i < len(s.Text) && s.Text[i] == ',' {
		i = SkipSpace(s.Text, i+1)
	}
	if i >= len(s.Text) || s.Text[i] == ']' {
		return nil, false
	}
	end := valueEnd(s.Text, i)
	if end <= i {
		return nil, false
	}
	s.At = end
	return s.Text[i:end], true
}

// Closed reports whether the array, and with it the text, ends after the element that Next returned
// last.
func (s *Elements) Closed() bool { return closed(s.Text, s.At, ']') }

// Child is a member of an object or an element of an array. It shares their bytes.
type Child struct {
	Name       []byte // of a member: without its quotes and still escaped
	Value      []byte
	Start, End int // span of Value in the object or array
}

// Children returns the members of an object or the elements of an array, in order. raw must be valid
// JSON without leading white space.
func Children(raw []byte) iter.Seq[Child] {
	return func(yield func(Child) bool) {
		if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
			return
		}
		m, s := Members{Text: raw, At: 1}, Elements{Text: raw, At: 1}
		for {
			var c Child
			var ok bool
			if raw[0] == '{' {
				if c.Name, c.Start, c.End, ok = m.Next(); ok {
					c.Value = raw[c.Start:c.End]
				}
			} else if c.Value, ok = s.Next(); ok {
				c.Start, c.End = s.At-len(c.Value), s.At
			}
			if !ok || !yield(c) {
				return
			}
		}
	}
}
