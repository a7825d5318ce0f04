package fulltext

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/clipperhouse/uax29/v2/words"
)

// Version changes with what Analyze returns and with what an index has: an index of another version is rebuilt.
const Version = 3

// MaxTerm is the length in bytes at which a term is cut.
const MaxTerm = 128

// English is the default language.
const English = "en-US"

// Languages are the languages of full-text policies. Their names are case-sensitive.
var Languages = []string{English, "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"}

// Analyzer turns a text into terms, as its language demands. The zero value is for languages without stop words and
// stemming.
type Analyzer struct{ english bool }

// For returns the Analyzer of a language.
func For(language string) Analyzer { return Analyzer{english: language == English} }

// Term is a word of a text as it is searched for: no term has the byte 0.
type Term struct {
	Text     string
	Position int // of the word among the words of the text, stop words included
}

// Terms returns the terms of a text in their order. Invalid UTF-8 is no word.
func (a Analyzer) Terms(text []byte) iter.Seq[Term] {
	return func(yield func(Term) bool) {
		it := words.FromBytes(text)
		for position := 0; it.Next(); {
			word := it.Value()
			if !isWord(word) {
				continue
			}
			if term := a.term(word); term != "" && !yield(Term{term, position}) {
				return
			}
			position++
		}
	}
}

// isWord reports whether a segment is a word instead of the space or punctuation between words.
func isWord(segment []byte) bool {
	for len(segment) > 0 {
		r, n := utf8.DecodeRune(segment)
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return true
		}
		segment = segment[n:]
	}
	return false
}

// term returns the term of a word, or "" for a stop word.
func (a Analyzer) term(word []byte) string {
	term := strings.ReplaceAll(string(bytes.ToLower(word)), "\x00", "") // beside invalid UTF-8
	if a.english {
		term = strings.ReplaceAll(term, "’", "'")
		if isStopWord(term) {
			return ""
		}
		if isStemmed(term) {
			term = stem(term)
		}
	}
	if len(term) > MaxTerm {
		term = strings.ToValidUTF8(term[:MaxTerm], "")
	}
	return term
}

// stopWords are the English words that are in too many texts to tell them apart.
var stopWords = []string{"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
	"no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
	"was", "will", "with"}

func isStopWord(term string) bool {
	const longest = 5
	if len(term) > longest {
		return false
	}
	_, found := slices.BinarySearch(stopWords, term)
	return found
}

// isStemmed reports whether a word may be stemmed: it has Latin letters and apostrophes only, and no more of them
// than a word of a language has.
func isStemmed(term string) bool {
	const shortest, longest = 3, 64
	if len(term) < shortest || len(term) > longest {
		return false
	}
	for i := range len(term) {
		if c := term[i]; (c < 'a' || c > 'z') && c != '\'' {
			return false
		}
	}
	return true
}

func stem(word string) string {
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}
