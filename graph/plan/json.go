package plan

import "byline/internal/jsonstring"

// MaxOpaque is the size in bytes of the largest value that is no text: ids, cursors, numbers, and the braces of
// objects.
const MaxOpaque = 256

// maxEscaped is how many bytes a byte of a string may have in JSON.
const maxEscaped = 6

// QuotedLen returns how many bytes appendText appends.
func QuotedLen(s string) int {
	n := len(s) + 2
	for i := jsonstring.PlainLen(s); i < len(s); i += 1 + jsonstring.PlainLen(s[i+1:]) {
		switch s[i] {
		case '"', '\\', '\n', '\r', '\t':
			n++
		default:
			n += maxEscaped - 1
		}
	}
	return n
}

// appendText appends a JSON string as graphql.MarshalString writes it.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := jsonstring.PlainLen(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		c := s[n]
		s = s[n+1:]
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
}
