package sql

import (
	"bytes"
	"math"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func stringMap(f func([]byte) []byte) func([]Value) Value {
	return func(a []Value) Value {
		if a[0].kind != String {
			return Value{}
		}
		return text(f(a[0].text))
	}
}

// stringTest is a function of two strings, ignoring case if the third argument is true.
func stringTest(f func(s, t []byte) bool) func([]Value) Value {
	return func(a []Value) Value {
		if a[0].kind != String || a[1].kind != String {
			return Value{}
		}
		if len(a) == 3 {
			if a[2].kind != Bool {
				return Value{}
			}
			if a[2].yes {
				return boolean(f(bytes.ToLower(a[0].text), bytes.ToLower(a[1].text)))
			}
		}
		return boolean(f(a[0].text, a[1].text))
	}
}

func concat(a []Value) Value {
	var s []byte
	for _, v := range a {
		if v.kind != String {
			return Value{}
		}
		s = append(s, v.text...)
	}
	return text(s)
}

func replace(a []Value) Value {
	for _, v := range a {
		if v.kind != String {
			return Value{}
		}
	}
	if len(a[1].text) == 0 {
		return Value{}
	}
	return text(bytes.ReplaceAll(a[0].text, a[1].text, a[2].text))
}

// replaced returns the size of the result of REPLACE.
func replaced(a []Value) int {
	if len(a[1].text) == 0 {
		return 0
	}
	return len(a[0].text) + product(bytes.Count(a[0].text, a[1].text), max(0, len(a[2].text)-len(a[1].text)))
}

// replicate repeats a string; a result of more than 10,000 units is undefined.
func replicate(a []Value) Value {
	n, ok := integer(a[1])
	if a[0].kind != String || !ok || n < 0 || product(length(a[0].text), n) > 10_000 {
		return Value{}
	}
	if len(a[0].text) == 0 {
		n = 0
	}
	return text(bytes.Repeat(a[0].text, n))
}

func trim(left, right bool) func([]Value) Value {
	return func(a []Value) Value {
		drop := unicode.IsSpace
		if len(a) == 2 {
			if a[1].kind != String {
				return Value{}
			}
			cut := string(a[1].text)
			drop = func(r rune) bool { return strings.ContainsRune(cut, r) }
		}
		if a[0].kind != String {
			return Value{}
		}
		s := a[0].text
		for left && len(s) > 0 {
			r, n := utf8.DecodeRune(s)
			if !drop(r) {
				break
			}
			s = s[n:]
		}
		for right && len(s) > 0 {
			r, n := utf8.DecodeLastRune(s)
			if !drop(r) {
				break
			}
			s = s[:len(s)-n]
		}
		return text(s)
	}
}

// The functions below count UTF-16 units, as the service does.

func ascii(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func units(s []byte) []uint16 { return utf16.Encode([]rune(string(s))) }

// fromUnits converts units to UTF-8. It replaces an unpaired surrogate by U+FFFD.
func fromUnits(u []uint16) []byte { return []byte(string(utf16.Decode(u))) }

func length(s []byte) int {
	if ascii(s) {
		return len(s)
	}
	return len(units(s))
}

// cut returns the units [from, to).
func cut(s []byte, from, to int) []byte {
	if ascii(s) {
		return s[from:to]
	}
	return fromUnits(units(s)[from:to])
}

func stringLength(a []Value) Value {
	if a[0].kind != String {
		return Value{}
	}
	return number(float64(length(a[0].text)))
}

func substring(s, start, count Value) Value {
	if s.kind != String || start.kind != Number || count.kind != Number {
		return Value{}
	}
	if len(s.text) == 0 {
		return text(nil)
	}
	from, ok1 := integer(start)
	n, ok2 := integer(count)
	if !ok1 || !ok2 {
		return Value{}
	}
	size := length(s.text)
	if from < 0 || from >= size || n <= 0 {
		return text(nil)
	}
	return text(cut(s.text, from, from+min(n, size-from)))
}

func right(a []Value) Value {
	n, ok := integer(a[1])
	if a[0].kind != String || !ok {
		return Value{}
	}
	size := length(a[0].text)
	return substring(a[0], number(float64(max(size-n, 0))), number(float64(size)))
}

// indexOf returns the position of the second string in the first, from the third argument on, or
// -1.
func indexOf(a []Value) Value {
	if a[0].kind != String || a[1].kind != String {
		return Value{}
	}
	from := 0
	if len(a) == 3 {
		var ok bool
		if from, ok = integer(a[2]); !ok {
			return Value{}
		}
	}
	s := a[0].text
	size := length(s)
	if from < 0 || from > size || from == math.MaxInt32 {
		return number(-1)
	}
	s = cut(s, from, size)
	at := bytes.Index(s, a[1].text)
	if at < 0 {
		return number(-1)
	}
	return number(float64(from + length(s[:at])))
}

func reverse(s []byte) []byte {
	u := units(s)
	for i, j := 0, len(u)-1; i < j; i, j = i+1, j-1 {
		u[i], u[j] = u[j], u[i]
	}
	return fromUnits(u)
}
