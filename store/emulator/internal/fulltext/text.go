package fulltext

// Text is an analysed text.
type Text struct {
	Words     int              // number of words, without stop words
	Positions map[string][]int // of each term, ascending
}

// Analyze returns the terms of a text with their positions.
func (a Analyzer) Analyze(text []byte) Text {
	t := Text{Positions: map[string][]int{}}
	for term := range a.Terms(text) {
		t.Words++
		t.Positions[term.Text] = append(t.Positions[term.Text], term.Position)
	}
	return t
}

// Phrase is what a query searches for: terms at certain distances from each other.
type Phrase []Term

// Phrase returns the phrase of a text. A text without words, or with stop words only, has none: nothing contains it.
func (a Analyzer) Phrase(text []byte) Phrase {
	var p Phrase
	for term := range a.Terms(text) {
		p = append(p, term)
	}
	return p
}

// Count returns how often a text has the phrase. positions returns the ascending positions of a term in the text.
func (p Phrase) Count(positions func(term string) []int) int {
	if len(p) == 0 {
		return 0
	}
	starts := positions(p[0].Text)
	if len(p) == 1 || len(starts) == 0 {
		return len(starts)
	}
	rest := make([][]int, len(p)-1)
	for i, term := range p[1:] {
		if rest[i] = positions(term.Text); len(rest[i]) == 0 {
			return 0
		}
	}
	count := 0
starts:
	for _, start := range starts {
		for i, term := range p[1:] {
			at := start + term.Position - p[0].Position
			for len(rest[i]) > 0 && rest[i][0] < at {
				rest[i] = rest[i][1:]
			}
			if len(rest[i]) == 0 {
				return count
			}
			if rest[i][0] != at {
				continue starts
			}
		}
		count++
	}
	return count
}
