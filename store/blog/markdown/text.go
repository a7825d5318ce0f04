package markdown

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"byline/internal/cut"
)

// Excerpt returns the beginning of what a reader sees, without markup: at most max characters, cut as package cut does.
// Blocks and lines are separated by a space. Images are their descriptions.
func (h HTML) Excerpt(max int) string {
	var b strings.Builder
	room := max + 1 // which shows whether the text goes on
	h.eachWord(func(word string) bool {
		if b.Len() > 0 {
			b.WriteByte(' ')
			room--
		}
		for _, r := range word {
			if room <= 0 {
				return false
			}
			b.WriteRune(r)
			room--
		}
		return room > 0
	})
	return cut.Characters(b.String(), max)
}

// The reading speed of adults: in words a minute, and in characters of Chinese and Japanese, which have no spaces.
const (
	wordsPerMinute      = 230
	charactersPerMinute = 500
)

// ReadingMinutes returns how long a text takes to read, at least one minute. It counts the words of the source that
// have a letter or digit.
func ReadingMinutes(source string) int {
	words, characters := 0, 0
	for word := range strings.FieldsSeq(source) {
		if n := unspaced(word); n > 0 {
			characters += n
		} else if strings.ContainsFunc(word, isWord) {
			words++
		}
	}
	seconds := words*60/wordsPerMinute + characters*60/charactersPerMinute
	return max(1, (seconds+30)/60)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// unspaced returns the number of characters of a word in a script without spaces between words.
func unspaced(word string) (n int) {
	for _, r := range word {
		if r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
			n++
		}
	}
	return n
}

// eachWord calls f with each word that a reader sees until it returns false.
func (h HTML) eachWord(f func(string) bool) {
	var text strings.Builder // since the last word that is known to have ended
	tokens := html.NewTokenizer(strings.NewReader(string(h)))
	for {
		switch tokens.Next() {
		case html.ErrorToken: // the end: rendered HTML has no errors
			eachField(text.String(), f)
			return
		case html.TextToken:
			text.Write(tokens.Text())
		default:
			tag := tokens.Token()
			if tag.DataAtom == atom.Img {
				text.WriteString(description(tag))
			}
			if !isInline(tag.DataAtom) {
				if !eachField(text.String(), f) {
					return
				}
				text.Reset()
			}
		}
	}
}

func eachField(text string, f func(string) bool) bool {
	for word := range strings.FieldsSeq(text) {
		if !f(word) {
			return false
		}
	}
	return true
}

func description(img html.Token) string {
	for _, a := range img.Attr {
		if a.Key == "alt" {
			return a.Val
		}
	}
	return ""
}

// isInline reports whether an element is within a line, so that it does not end a word.
func isInline(a atom.Atom) bool {
	switch a {
	case atom.A, atom.Code, atom.Del, atom.Em, atom.Img, atom.Strong:
		return true
	}
	return false
}
