package document

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"byline/graph/refusal"
	"byline/store/blog"
)

// Strings are stored and returned unchanged, or refused. The JSON decoder and the GraphQL parser
// replace invalid UTF-8 and unpaired surrogates by replacement characters, so both are refused
// before.

const messageUnpairedSurrogate = `invalid \u escape: unpaired surrogate`

var (
	errNotUTF8           = errors.New("not valid UTF-8")
	ErrUnpairedSurrogate = &refusal.Error{Code: refusal.BadUserInput, Reason: blog.ReasonFormat,
		Message: messageUnpairedSurrogate}
)

// checkText refuses JSON with invalid UTF-8 or unpaired surrogates.
func checkText(json string) error {
	if !utf8.ValidString(json) {
		return errNotUTF8
	}
	if unpairedSurrogate(json) >= 0 {
		return ErrUnpairedSurrogate
	}
	return nil
}

// unpairedSurrogate returns the index of the first escape \uXXXX that is an unpaired surrogate, or -1. Backslashes
// are in strings only.
func unpairedSurrogate(text string) int {
	for i := 0; i < len(text); {
		next := strings.IndexByte(text[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		switch first := codeUnit(text[i:]); {
		case !utf16.IsSurrogate(first):
			i += len(`\n`)
		case utf16.DecodeRune(first, codeUnit(text[i+len(`\ud83d`):])) == utf8.RuneError:
			return i
		default:
			i += len(`\ud83d\ude00`)
		}
	}
	return -1
}

// codeUnit returns the code unit of the escape \uXXXX with which a text begins, or 0.
func codeUnit(text string) rune {
	if len(text) < len(`\ud83d`) || text[:2] != `\u` {
		return 0
	}
	unit, _ := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit)
}
