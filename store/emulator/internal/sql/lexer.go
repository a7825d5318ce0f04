package sql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokWord
	tokNumber
	tokString
	tokParam
	tokSymbol
)

// token is a token of the text. word is the keyword as in keywords, or the symbol; "" for a name.
type token struct {
	kind     tokenKind
	pos, end int32
	word     string
}

// maxText is the service's limit for a query text, in bytes.
const maxText = 512 << 10

// keywords cannot be names: the service refuses c.value and AS value, too. Those in lower case are keywords only
// when they are written so.
var keywords = func() map[string]string {
	m := make(map[string]string)
	for _, w := range strings.Fields(`AND ARRAY AS ASC BETWEEN BY DESC DISTINCT ESCAPE EXISTS FROM GROUP IN JOIN LIKE
		LIMIT NOT OFFSET OR ORDER SELECT TOP VALUE WHERE false null true udf undefined`) {
		m[w] = w
	}
	return m
}()

// keyword returns the keyword s, or "".
func keyword(s string) string {
	var buf [len("undefined")]byte
	if len(s) > len(buf) {
		return ""
	}
	if word, ok := keywords[s]; ok {
		return word
	}
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		buf[i] = c
	}
	return keywords[string(buf[:len(s)])]
}

// symbolLength returns the length of the operator or punctuation at the start of s, or 0.
func symbolLength(s string) int {
	if len(s) >= 2 {
		switch s[:2] {
		case "<=", ">=", "!=", "<>", "||", "??":
			return 2
		}
	}
	if strings.IndexByte("()[]{},.:?*+-/%=<>", s[0]) >= 0 {
		return 1
	}
	return 0
}

func errorAt(pos, end int, format string, args ...any) *Error {
	return &Error{Pos: pos, End: end, Message: fmt.Sprintf(format, args...)}
}

// lex splits the text into tokens; the last is tokEnd.
func lex(s string) ([]token, *Error) {
	if len(s) > maxText {
		return nil, errorAt(maxText, len(s), "the query text is longer than %d bytes", maxText)
	}
	if !utf8.ValidString(s) {
		return nil, errorAt(0, len(s), "the query text is not UTF-8")
	}
	tokens := make([]token, 0, len(s)/4+8)
	for i := 0; ; {
		i = skipBlank(s, i)
		if i < 0 {
			return nil, errorAt(len(s), len(s), "Syntax error, a comment does not end")
		}
		if i == len(s) {
			return append(tokens, token{kind: tokEnd, pos: int32(i), end: int32(i)}), nil
		}
		t, err := lexOne(s, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		i = int(t.end)
	}
}

// skipBlank skips white space and comments; it returns -1 if a comment does not end.
func skipBlank(s string, i int) int {
	for i < len(s) {
		switch {
		case s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r':
			i++
		case strings.HasPrefix(s[i:], "--"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return len(s)
			}
			i += n + 1
		case strings.HasPrefix(s[i:], "/*"):
			n := strings.Index(s[i+2:], "*/")
			if n < 0 {
				return -1
			}
			i += n + 4
		default:
			return i
		}
	}
	return i
}

func lexOne(s string, i int) (token, *Error) {
	t := token{pos: int32(i)}
	c := s[i]
	switch {
	case letter(c):
		t.kind = tokWord
		t.end = int32(wordEnd(s, i))
		t.word = keyword(s[i:t.end])
	case c == '@':
		t.kind = tokParam
		t.end = int32(wordEnd(s, i+1))
		if int(t.end) == i+1 {
			return t, errorAt(i, i+1, "Syntax error, '@' without a parameter's name")
		}
	case digit(c) || c == '.' && i+1 < len(s) && digit(s[i+1]):
		t.kind = tokNumber
		end := numberEnd(s, i)
		if end < len(s) && (letter(s[end]) || digit(s[end])) {
			return t, errorAt(i, wordEnd(s, end), "Syntax error, invalid number '%s'", s[i:wordEnd(s, end)])
		}
		t.end = int32(end)
	case c == '"' || c == '\'':
		t.kind = tokString
		end := i + 1
		for end < len(s) && s[end] != c {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(s) {
			return t, errorAt(i, len(s), "Syntax error, a string does not end")
		}
		t.end = int32(end + 1)
	default:
		t.kind = tokSymbol
		for _, shift := range []string{">>>", ">>", "<<"} {
			if strings.HasPrefix(s[i:], shift) {
				return t, errorAt(i, i+len(shift), "The operator '%s' is not supported", shift)
			}
		}
		if n := symbolLength(s[i:]); n > 0 {
			t.word = s[i : i+n]
			t.end = int32(i + n)
			return t, nil
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if strings.ContainsRune("&|^~", r) {
			return t, errorAt(i, i+n, "The operator '%c' is not supported", r)
		}
		return t, errorAt(i, i+n, "Syntax error, invalid character '%c'", r)
	}
	return t, nil
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

func wordEnd(s string, i int) int {
	for i < len(s) && (letter(s[i]) || digit(s[i])) {
		i++
	}
	return i
}

func numberEnd(s string, i int) int {
	for i < len(s) && digit(s[i]) {
		i++
	}
	if i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && digit(s[i]) {
			i++
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && digit(s[j]) {
			for i = j; i < len(s) && digit(s[i]); i++ {
			}
		}
	}
	return i
}

// unquoteSQL decodes a string literal.
func unquoteSQL(s string, pos int) (string, *Error) {
	in := s[1 : len(s)-1]
	if strings.IndexByte(in, '\\') < 0 {
		return in, nil
	}
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		n := 1
		if in[i] == '\\' {
			n = escapeLength(in[i:])
		}
		switch {
		case n == 0:
			at := pos + 1 + i
			return "", errorAt(at, at+2, "Syntax error, unknown escape sequence in a string")
		case n == 1:
			out = append(out, in[i])
		case in[i+1] == '\'':
			out = append(out, '\'')
		default:
			out, _ = jsontext.AppendUnquote(out, `"`+in[i:i+n]+`"`)
		}
		i += n
	}
	return string(out), nil
}

// escapeLength returns the length of the escape sequence at the start of s, 0 if it is invalid. A
// surrogate pair is one sequence; an unpaired surrogate is invalid.
func escapeLength(s string) int {
	if strings.HasPrefix(s, `\'`) {
		return 2
	}
	for _, n := range []int{2, 6, 12} {
		if n <= len(s) && ValidJSON([]byte(`"`+s[:n]+`"`)) {
			return n
		}
	}
	return 0
}
