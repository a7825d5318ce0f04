package sql

import (
	"bytes"

	"byline/store/emulator/jsonpart"
)

// MaxNesting is the depth of nesting that the service accepts.
const MaxNesting = 128

// MemberName returns the decoded name of a member. It shares the member's bytes unless it has
// escapes.
func MemberName(c jsonpart.Child) []byte {
	if bytes.IndexByte(c.Name, '\\') < 0 {
		return c.Name
	}
	return unescapeName(c.Name)
}

// ReadText reads a JSON string; null is the empty one. raw is valid JSON.
func ReadText(raw []byte, text *string) bool {
	value := ValueOf(raw)
	if *text = ""; value.Kind() == String {
		*text = value.String()
	}
	return value.Kind() == String || value.Kind() == Null
}

// TooDeep reports whether a document is nested more than MaxNesting levels deep.
func TooDeep(doc []byte) bool {
	depth, _ := Survey(doc)
	return depth > MaxNesting
}

// Survey returns the nesting depth of a document, and whether there is white space between its
// tokens. It stops beyond MaxNesting.
func Survey(doc []byte) (deepest int, spaced bool) {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = jsonpart.StringEnd(doc, i) - 1
		case '{', '[':
			if depth++; depth > deepest {
				if deepest = depth; deepest > MaxNesting {
					return deepest, spaced
				}
			}
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r':
			spaced = true
		}
	}
	return deepest, spaced
}

// Compact returns a copy of valid JSON without white space between tokens.
func Compact(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			end := jsonpart.StringEnd(doc, i)
			out = append(out, doc[i:end]...)
			i = end - 1
		case ' ', '\t', '\n', '\r':
		default:
			out = append(out, doc[i])
		}
	}
	return out
}
