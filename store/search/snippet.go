package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"byline/internal/cut"
)

// Snippet is the part of a post in which a query matches first; the beginning if it does not match the words of the
// post, but its title or tags.
type Snippet struct {
	Text    string
	Matches []Range // in order, without overlaps
}

// Range is a part of a text, in UTF-16 code units, as in JavaScript.
type Range struct{ Start, End int }

// Lengths in characters, those of windows in UTF-16 code units. A query returns windows of texts, as a text may have
// 100,000 characters.
const (
	snippetLength = 200
	beforeMatch   = 60  // in a snippet
	beforeWindow  = 120 // in a window
	windowLength  = 480
	maxWindows    = 3 // of a text, besides its beginning
)

// windows returns the SQL of the windows of a text in which a query may match: its beginning, and those around the
// first occurrences of words, as far as words begin alike.
func (q Query) windows() string {
	all := fmt.Sprintf("[LEFT(c.text, %d)", windowLength)
	for _, t := range q.must[:min(len(q.must), maxWindows)] {
		at := fmt.Sprintf("INDEX_OF(LOWER(c.text), %s)", quote(t.beginning()))
		all += fmt.Sprintf(", SUBSTRING(c.text, (%s > %d ? %[1]s - %[2]d : 0), %d)", at, beforeWindow, windowLength)
	}
	return all + "]"
}

// beginning returns what the forms of the term's first word begin with, with the space before it where the script has
// spaces.
func (t *term) beginning() string {
	w := t.words[0]
	form := strings.ToLower(t.text[w.start:w.end])
	n := 0
	for n < len(form) && n < len(w.stem) && form[n] == w.stem[n] {
		n++
	}
	if c := form[0]; c < 'a' || c > 'z' {
		return form
	}
	const shortest = 3
	if begins := strings.TrimRight(form[:n], "ei"); len(begins) >= shortest { // they change: happy, happiness
		form = begins
	}
	return " " + form
}

// snippet returns the snippet of a post, given the windows of its text: of the first one that has the most of the
// terms.
func (q Query) snippet(windows []string) (best Snippet) {
	most := -1
	for i, w := range windows {
		later := i > 0 && w != windows[0]
		body, cutOff, ok := bodyOf(w, later)
		if s, terms := q.snippetOf(body, later, cutOff); terms > most && (ok || i == 0) {
			best, most = s, terms
		}
	}
	return best
}

// bodyOf returns the words of the post in a window, without those that are not whole; ok is false if it has none.
// cutOff reports whether more words follow.
func bodyOf(window string, later bool) (body string, cutOff, ok bool) {
	full := unitsOf(window) >= windowLength-1 // half of a character may be lost
	body, _, ended := strings.Cut(window, afterBody)
	if full && !ended {
		body, ended = strings.CutSuffix(body, afterBody[:1])
	}
	if !ended && strings.Contains(body, "\n") {
		return "", false, false // of the title and the tags
	}
	body = strings.Trim(body, "\ufffd") // half of a character
	if later {
		if space := strings.IndexByte(body, ' '); space >= 0 && unitsOf(body[:space]) < beforeWindow {
			body = body[space+1:]
		}
	}
	if cutOff = full && !ended; cutOff {
		if space := strings.LastIndexByte(body, ' '); space > len(body)/2 {
			body = body[:space]
		}
	}
	return body, cutOff, body != ""
}

// unitsOf returns the length of a text in UTF-16 code units.
func unitsOf(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// snippetOf returns a snippet of a text, and how many of the terms it has. The text may have more before it and after
// it.
func (q Query) snippetOf(text string, before, after bool) (s Snippet, terms int) {
	matches, _ := q.matches(text)
	if len(matches) > 0 {
		most := snippetLength * 3 / 4 // before the end of the first match
		if before {
			most = beforeMatch
		}
		if first := matches[0]; utf8.RuneCountInString(text[:first.End]) > most {
			start := len(text) - len(cutFront(text[:first.Start], beforeMatch)) - len(text[first.Start:])
			text, before = text[start:], true
		}
	}
	short := cut.Characters(text, snippetLength)
	if after = after || len(short) < len(text); after {
		short += "…"
	}
	if before {
		short = "…" + short
	}
	matches, terms = q.matches(short)
	return Snippet{Text: short, Matches: inUnits(short, matches)}, terms
}

// cutFront returns the end of a text: at most max characters, from a space on if there is one.
func cutFront(text string, max int) string {
	start := len(text)
	for range max {
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	if start == 0 {
		return text
	}
	if space := strings.IndexByte(text[start:], ' '); space >= 0 {
		start += space + 1
	}
	return text[start:]
}

// matches returns where a text matches the terms, in bytes, and how many of them it matches.
func (q Query) matches(text string) (all []Range, terms int) {
	list := slices.Collect(wordsOf(text))
	at := make(map[int]word, len(list))
	for _, w := range list {
		at[w.position] = w
	}
	for _, t := range q.must {
		found := false
		for _, first := range list {
			if first.stem != t.words[0].stem {
				continue
			}
			end, same := first.end, true
			for _, w := range t.words[1:] {
				next := at[first.position+w.position-t.words[0].position]
				same = same && next.stem == w.stem
				end = next.end
			}
			if same {
				found, all = true, append(all, Range{first.start, end})
			}
		}
		if found {
			terms++
		}
	}
	return merged(all), terms
}

// merged sorts ranges, and joins those that overlap.
func merged(all []Range) (list []Range) {
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range all {
		if last := len(list) - 1; last >= 0 && r.Start < list[last].End {
			list[last].End = max(list[last].End, r.End)
		} else {
			list = append(list, r)
		}
	}
	return list
}

// inUnits converts sorted ranges in bytes to UTF-16 code units.
func inUnits(text string, ranges []Range) []Range {
	all := make([]Range, len(ranges))
	at, units := 0, 0
	advance := func(to int) int {
		units += unitsOf(text[at:to])
		at = to
		return units
	}
	for i, r := range ranges {
		all[i].Start = advance(r.Start)
		all[i].End = advance(r.End)
	}
	return all
}
