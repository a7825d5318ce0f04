// Package jsonstring looks for the bytes of a string that JSON must escape, eight bytes at a time.
package jsonstring

import "encoding/binary"

// Eight bytes are compared at once: if a byte is less than another, which has no high bit, the difference has the
// high bit, and so may differences to its left. Bytes that have the high bit themselves are masked out.
const (
	each = 0x0101010101010101
	high = 0x8080808080808080
)

// below is zero if no byte of w is less than c, which is at most 128.
func below(w uint64, c byte) uint64 { return (w - each*uint64(c)) &^ w & high }

// HasControls reports whether b has control characters.
func HasControls(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if below(binary.LittleEndian.Uint64(b), ' ') != 0 {
			return true
		}
	}
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}

// PlainLen returns how many bytes of s precede the first that must be escaped in a string: a quote, a backslash or
// a control character.
func PlainLen(s string) int {
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64([]byte(s[n : n+8]))
		if below(w, ' ')|below(w^each*'"', 1)|below(w^each*'\\', 1) != 0 {
			break
		}
	}
	for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' {
		n++
	}
	return n
}
