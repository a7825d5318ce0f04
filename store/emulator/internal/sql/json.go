package sql

import (
	"slices"

	"byline/store/emulator/jsonpart"

	"github.com/go-json-experiment/json/jsontext"
)

// member returns the value of the first member called name, or nil.
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
			key = unescapeName(key)
		}
		if string(key) == name {
			return raw[start:end]
		}
	}
}

// element returns the value at index n, or nil.
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

// ValidJSON reports whether b is one JSON value in UTF-8, without unpaired surrogates. An object
// may repeat a name; nesting may be up to 10,000 levels deep.
func ValidJSON(b []byte) bool { return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) }

// unescapeName decodes the name of a member, which has no quotes around it.
func unescapeName(name []byte) []byte {
	return stringText(slices.Concat([]byte{'"'}, name, []byte{'"'}))
}

// AppendQuoted appends text as a JSON string.
func AppendQuoted(dst, text []byte) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // AppendQuote replaces invalid UTF-8 and reports it
	return dst
}
