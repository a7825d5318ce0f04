package markdown

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"byline/internal/cut"
)

// Excerpt returns the beginning of what a reader sees, without markup: at most max characters, cut as package cut does.
// Blocks and lines are separated by a space. Headings, code blocks, tables and the descriptions of images are left out,
// unless there is nothing else.
func (h HTML) Excerpt(max int) string {
	if text := h.beginning(max, false); text != "" {
		return text
	}
	return h.beginning(max, true)
}

// Text returns all words that a reader sees, the descriptions of images included, separated by spaces.
func (h HTML) Text() string {
	var b strings.Builder
	h.eachWord(true, func(word string) bool {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		return true
	})
	return b.String()
}

// beginning returns the beginning of the prose, or of everything.
func (h HTML) beginning(max int, everything bool) string {
	var b strings.Builder
	room := max + 1 // which shows whether the text goes on
	h.eachWord(everything, func(word string) bool {
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

// eachWord calls f with each word of the prose, or of everything, that a reader sees until it returns false.
func (h HTML) eachWord(everything bool, f func(string) bool) {
	var text strings.Builder // since the last word that is known to have ended
	tokens := html.NewTokenizer(strings.NewReader(string(h)))
	for skipped := 0; ; { // the number of open elements that are not prose
		kind := tokens.Next()
		switch kind {
		case html.ErrorToken: // the end: rendered HTML has no errors
			eachField(text.String(), f)
			return
		case html.TextToken:
			if skipped == 0 {
				text.Write(tokens.Text())
			}
			continue
		}
		tag := tokens.Token()
		switch {
		case everything && tag.DataAtom == atom.Img:
			text.WriteString(description(tag))
		case !everything && !isProse(tag.DataAtom) && kind == html.StartTagToken:
			skipped++
		case !everything && !isProse(tag.DataAtom) && kind == html.EndTagToken:
			skipped--
		}
		if !isInline(tag.DataAtom) {
			if !eachField(text.String(), f) {
				return
			}
			text.Reset()
		}
	}
}

// isProse reports whether the text of an element is read in sentences.
func isProse(a atom.Atom) bool {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Pre, atom.Table:
		return false
	}
	return true
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
