package sql

import (
	"unicode/utf16"
	"unicode/utf8"

	"byline/internal/jsonpart"
)

// member returns the value of the first member called name, nil if there is none.
func member(raw []byte, name string) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	m := jsonpart.Members{Text: raw, At: 1}
	for {
		key, start, end, ok := m.Next()
		if !ok {
			return nil
		}
		if m.Escaped {
			key = unescape(nil, key)
		}
		if string(key) == name {
			return raw[start:end]
		}
	}
}

// element returns the value at index n, nil if there is none.
func element(raw []byte, n int) []byte {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	s := jsonpart.Elements{Text: raw, At: 1}
	for {
		v, ok := s.Next()
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

// AppendQuoted appends text as a JSON string.
func AppendQuoted(dst, text []byte) []byte {
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
