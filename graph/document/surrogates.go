package document

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
)

// Strings are stored and returned unchanged, or refused. The JSON decoder and the GraphQL parser
// replace invalid UTF-8 and unpaired surrogates by replacement characters, so both are refused
// before.

var (
	errNotUTF8           = errors.New("not valid UTF-8")
	ErrUnpairedSurrogate = &refusal.Error{Code: refusal.BadUserInput, Message: `invalid \u escape: unpaired surrogate`}
)

// checkText refuses JSON with invalid UTF-8 or unpaired surrogates.
func checkText(json string) error {
	if !utf8.ValidString(json) {
		return errNotUTF8
	}
	for {
		i := strings.IndexByte(json, '\\')
		if i < 0 {
			return nil
		}
		n, _, ok := escape(json[i:])
		if !ok {
			return ErrUnpairedSurrogate
		}
		json = json[i+n:]
	}
}

const maxEscape = len(`\ud83d\ude00`)

// escape reads the escape at the beginning of a text. n is its length. pair is the character of a
// surrogate pair, 0 for another escape. ok is false for an unpaired surrogate.
func escape(text string) (n int, pair rune, ok bool) {
	unit := func(s string) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(s[2:6], 16, 16)
		return rune(u)
	}
	first := unit(text)
	if !utf16.IsSurrogate(first) {
		return min(2, len(text)), 0, true
	}
	if pair = utf16.DecodeRune(first, unit(text[6:])); pair == utf8.RuneError {
		return 6, 0, false
	}
	return maxEscape, pair, true
}

// surrogatePairs replaces escaped surrogate pairs in the strings of a document by their
// characters: the parser takes each escape of a pair for a character.
type surrogatePairs struct{}

var _ graphql.OperationParameterMutator = surrogatePairs{}

func (surrogatePairs) ExtensionName() string                   { return "SurrogatePairs" }
func (surrogatePairs) Validate(graphql.ExecutableSchema) error { return nil }

func (surrogatePairs) MutateOperationParameters(_ context.Context, params *graphql.RawParams) *gqlerror.Error {
	query, err := joinSurrogates(params.Query)
	if err != nil {
		return gqlerror.Wrap(err)
	}
	params.Query = query
	return nil
}

// joinSurrogates replaces escaped surrogate pairs in the strings of a document by their
// characters (GraphQL, section 2.9.4). Comments and block strings have no escapes.
func joinSurrogates(document string) (string, error) {
	if !strings.Contains(document, `\ud`) && !strings.Contains(document, `\uD`) {
		return document, nil
	}
	var joined strings.Builder
	quoted := false
	for rest := document; rest != ""; {
		n := 1
		switch c := rest[0]; {
		case c == '\n', c == '\r':
			quoted = false // the parser refuses it
		case quoted && c == '\\':
			var pair rune
			var ok bool
			if n, pair, ok = escape(rest); !ok {
				return "", ErrUnpairedSurrogate
			}
			if pair != 0 {
				joined.WriteRune(pair)
				rest = rest[n:]
				continue
			}
		case !quoted && c == '#':
			n = lengthUntil(rest, strings.IndexAny(rest, "\r\n"))
		case !quoted && strings.HasPrefix(rest, blockQuote):
			n = blockLength(rest)
		case c == '"':
			quoted = !quoted
		}
		joined.WriteString(rest[:n])
		rest = rest[n:]
	}
	return joined.String(), nil
}

const blockQuote = `"""`

// blockLength returns the length of the block string at the beginning of a text.
func blockLength(text string) int {
	n := len(blockQuote)
	for {
		end := strings.Index(text[n:], blockQuote)
		if end < 0 {
			return len(text)
		}
		n += end + len(blockQuote)
		if text[n-len(blockQuote)-1] != '\\' {
			return n
		}
	}
}

func lengthUntil(text string, end int) int {
	if end < 0 {
		return len(text)
	}
	return end
}
