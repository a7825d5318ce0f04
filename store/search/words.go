package search

import (
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/clipperhouse/uax29/v2/words"
)

// word is a word of a text, as full-text search compares words.
type word struct {
	stem       string // "" for a stop word
	position   int    // among the words
	start, end int    // offsets in the text, in bytes
}

// wordsOf returns the words of a text.
func wordsOf(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		it := words.FromString(text)
		for position := 0; it.Next(); {
			if !strings.ContainsFunc(it.Value(), isWordCharacter) {
				continue
			}
			if !yield(word{stemOf(it.Value()), position, it.Start(), it.End()}) {
				return
			}
			position++
		}
	}
}

func isWordCharacter(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// stopWords are what Cosmos DB does not search for in English, as far as that is known, sorted: the list of Lucene.
var stopWords = []string{"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
	"no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
	"was", "will", "with"}

// stemOf returns a word without its case and ending, "" for a stop word.
func stemOf(word string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "’", "'")
	if _, stop := slices.BinarySearch(stopWords, word); stop {
		return ""
	}
	const shortest, longest, most = 3, 64, 128 // in bytes
	if len(word) > most {
		return strings.ToValidUTF8(word[:most], "")
	}
	if len(word) < shortest || len(word) > longest || strings.Trim(word, "'abcdefghijklmnopqrstuvwxyz") != "" {
		return word
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}
