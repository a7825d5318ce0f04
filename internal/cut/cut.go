// Package cut shortens texts of any script: at a space if there is one near the limit, else between the characters that
// readers see, the grapheme clusters of UAX 29. Scripts without spaces, and long addresses, are cut at the limit.
package cut

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Characters returns the beginning of a text: at most max characters of Unicode.
func Characters(text string, max int) string {
	end := 0
	for range max {
		if end == len(text) {
			return text
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return before(text, end)
}

// Bytes returns the beginning of a text: at most max bytes.
func Bytes(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return before(text, max)
}

// nearness is the most characters that are left out to cut a text at a space: more than most words have. Half of the
// text is left in any case.
const nearness = 25

// before returns the longest beginning of a text that ends at or before a character.
func before(text string, end int) string {
	if end == len(text) {
		return text
	}
	space := end
	if r, _ := utf8.DecodeRuneInString(text[end:]); !unicode.IsSpace(r) {
		space = strings.LastIndexFunc(text[:end], unicode.IsSpace)
	}
	if space > 0 && space >= end/2 && utf8.RuneCountInString(text[space:end]) <= nearness {
		if short := strings.TrimRightFunc(text[:space], unicode.IsSpace); short != "" {
			return short
		}
	}
	boundary := 0
	for clusters := graphemes.FromString(text); clusters.Next() && clusters.End() <= end; {
		boundary = clusters.End()
	}
	if boundary == 0 { // a single cluster is longer
		boundary = end
	}
	return text[:boundary]
}
