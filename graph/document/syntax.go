package document

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"

	"byline/graph/refusal"
)

// withoutCR returns a document whose lines end in LF. That is the same document: CRLF occurs only between
// tokens, and in block strings, whose values have LF. After CRLF the lexer's columns are one too high.
func withoutCR(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// parse parses a document and refuses one that is too large.
func parse(text string) (*ast.QueryDocument, *gqlerror.Error) {
	document, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, MaxTokens)
	if err != nil {
		return nil, syntaxError(text, err)
	}
	if err := checkSurrogates(text); err != nil {
		return nil, err
	}
	return document, checkFragments(document)
}

// checkSurrogates refuses unpaired surrogates in strings (GraphQL, section 2.9.4), of which the lexer makes
// replacement characters. Comments and block strings have no escapes.
func checkSurrogates(text string) *gqlerror.Error {
	if !strings.Contains(text, `\ud`) && !strings.Contains(text, `\uD`) {
		return nil
	}
	for t := range tokens(text) {
		if t.Kind != lexer.String {
			continue
		}
		if i := unpairedSurrogate(t.text); i >= 0 {
			at := t.begin
			at.Column += utf8.RuneCountInString(t.text[:i])
			return failedAt(at, messageUnpairedSurrogate)
		}
	}
	return nil
}

// syntaxError returns the error of a document that does not parse: with the message of the lexer instead of
// "Unexpected <Invalid>", and at the right location.
func syntaxError(text string, err error) *gqlerror.Error {
	message, at := refusal.Cause(err), locations(err)
	if len(at) == 0 { // too many tokens
		return failed(gqlerror.Errorf("%s", message))
	}
	for t := range tokens(text) {
		switch {
		case t.reported != at[0]:
		case t.err != nil:
			return failedAt(t.invalid(), t.message())
		default:
			return failedAt(t.begin, message)
		}
	}
	return failedAt(at[0], message)
}

func failedAt(at gqlerror.Location, message string) *gqlerror.Error {
	return failed(gqlerror.ErrorLocf("", at.Line, at.Column, "%s", message))
}

func failed(err *gqlerror.Error) *gqlerror.Error {
	errcode.Set(err, errcode.ParseFailed)
	return err
}

func locations(err error) []gqlerror.Location {
	var e *gqlerror.Error
	errors.As(err, &e)
	return e.Locations
}

// Locate corrects the locations of the errors of rules: a string begins at its quote, a directive at its @, and
// a fragment at its dots.
func Locate(text string, errs gqlerror.List) {
	byRule := func(err *gqlerror.Error) bool { return err.Rule != "" }
	if !slices.ContainsFunc(errs, byRule) {
		return
	}
	begins := map[gqlerror.Location]gqlerror.Location{}
	var previous token
	for t := range tokens(text) {
		begins[t.reported] = t.begin
		if previous.Kind == lexer.At || previous.Kind == lexer.Spread {
			begins[t.reported] = previous.begin
		}
		previous = t
	}
	for _, err := range errs {
		if byRule(err) {
			for i, at := range err.Locations {
				err.Locations[i] = begins[at]
			}
		}
	}
}

// token is a token of a document.
type token struct {
	lexer.Token
	err        error             // of the lexer: this is the last token
	text, rest string            // its source, and the source from its end
	begin, end gqlerror.Location // of its source
	reported   gqlerror.Location // where the lexer says it is
}

// invalid returns the location of the character that is invalid, or of its escape.
func (t token) invalid() gqlerror.Location {
	at := t.end
	if strings.HasPrefix(refusal.Cause(t.err), "Invalid character escape sequence") {
		at.Column-- // the lexer is after the backslash
	}
	return at
}

// message returns the message of the lexer's error. The lexer takes the first byte of a character for the
// character.
func (t token) message() string {
	message := refusal.Cause(t.err)
	if t.rest != "" && t.rest[0] >= utf8.RuneSelf {
		c, _ := utf8.DecodeRuneInString(t.rest)
		message = strings.Replace(message, string(rune(t.rest[0])), string(c), 1)
	}
	return strings.ToValidUTF8(message, "")
}

// tokens returns the tokens of a document, up to the first that is invalid.
func tokens(text string) iter.Seq[token] {
	return func(yield func(token) bool) {
		l, s := lexer.New(&ast.Source{Input: text}), scanner{rest: text}
		for {
			read, err := l.ReadToken()
			t := token{Token: read, err: err, reported: gqlerror.Location{Line: read.Pos.Line, Column: read.Pos.Column}}
			s.skip(read.Pos.Start)
			t.begin = s.location()
			t.text = s.skip(read.Pos.End)
			t.end, t.rest = s.location(), s.rest
			if !yield(t) || err != nil || t.Kind == lexer.EOF {
				return
			}
		}
	}
}

// scanner finds the lines and columns of the lexer's offsets, which count characters.
type scanner struct {
	rest              string // what follows the offset
	offset, lineStart int
	lines             int // that have ended
}

func (s *scanner) location() gqlerror.Location {
	return gqlerror.Location{Line: s.lines + 1, Column: s.offset - s.lineStart + 1}
}

// skip advances to an offset and returns what it skips.
func (s *scanner) skip(to int) string {
	text := s.rest
	for ; s.offset < to && s.rest != ""; s.offset++ {
		c, size := utf8.DecodeRuneInString(s.rest)
		s.rest = s.rest[size:]
		if c == '\n' || c == '\r' {
			s.lines, s.lineStart = s.lines+1, s.offset+1
		}
	}
	return text[:len(text)-len(s.rest)]
}
