package plan

import "encoding/binary"

// MaxOpaque is the size in bytes of the largest value that is no text: ids, cursors, numbers, and the braces of
// objects.
const MaxOpaque = 256

// maxEscaped is how many bytes a byte of a string may have in JSON.
const maxEscaped = 6

// QuotedLen returns how many bytes appendText appends.
func QuotedLen(s string) int {
	n := len(s) + 2
	for i := 0; i < len(s); i++ {
		if len(s)-i >= 8 && noneEscaped(binary.LittleEndian.Uint64([]byte(s[i:i+8]))) {
			i += 7
			continue
		}
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += maxEscaped - 1
		}
	}
	return n
}

// appendText appends a JSON string as graphql.MarshalString writes it.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of the bytes that are copied unescaped
	for i := 0; i < len(s); i++ {
		if len(s)-i >= 8 && noneEscaped(binary.LittleEndian.Uint64([]byte(s[i:i+8]))) {
			i += 7
			continue
		}
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			const digits = "0123456789ABCDEF"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xF])
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// noneEscaped reports whether none of eight bytes needs escaping. Subtracting a larger byte sets
// the high bit of the difference; bytes that have it already are masked out.
func noneEscaped(b uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := b^each*'"', b^each*'\\'
	return ((b-each*' ')&^b|(quote-each)&^quote|(backslash-each)&^backslash)&high == 0
}
