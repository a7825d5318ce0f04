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

// Texts are stored and returned as they were sent, or refused. The decoder of JSON and
// the parser of GraphQL put replacement characters where they find none, in UTF-8 and
// in escapes, so these are looked at before.

var (
	errNotUTF8           = errors.New("not valid UTF-8")
	ErrUnpairedSurrogate = &refusal.Error{Code: refusal.BadUserInput, Message: `invalid \u escape: unpaired surrogate`}
)

// checkText refuses JSON that has something in it that is no character.
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

// escape reads the escape that a text begins with: how long it is and, if it is two
// that stand for one character (UTF-16 surrogates), which. It is not ok if it is half
// of one.
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

// surrogatePairs has the strings of a document say what their escapes stand for
// together, since the parser takes each of a pair for a character of its own.
type surrogatePairs struct{}

var _ graphql.OperationParameterMutator = surrogatePairs{}

func (surrogatePairs) ExtensionName() string                   { return "WholeCharacters" }
func (surrogatePairs) Validate(graphql.ExecutableSchema) error { return nil }

func (surrogatePairs) MutateOperationParameters(_ context.Context, params *graphql.RawParams) *gqlerror.Error {
	query, err := joinSurrogates(params.Query)
	if err != nil {
		return gqlerror.Wrap(err)
	}
	params.Query = query
	return nil
}

// joinSurrogates replaces pairs of escapes in the strings of a document by the characters
// that they stand for (GraphQL, section 2.9.4). In comments and block strings there
// are no such escapes.
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
			quoted = false // the parser will not have it
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

// blockLength is how long the block string is that a text begins with.
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
