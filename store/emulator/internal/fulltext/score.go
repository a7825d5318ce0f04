package fulltext

import "math"

// The usual parameters of BM25: how soon further occurrences of a term stop to count, and how much the length of a
// text does.
const (
	saturation = 1.2
	length     = 0.75
)

// Collection has the statistics of the texts among which a text is ranked.
type Collection struct {
	Texts int // number of items
	Words int // of all texts
}

// Score returns the BM25 score of a text for one phrase: how often the text has it, how many words the text has, and
// how many of the collection's texts have the phrase.
func (c Collection) Score(count, words, texts int) float64 {
	if count == 0 || c.Texts == 0 || c.Words == 0 {
		return 0
	}
	rarity := math.Log1p((float64(c.Texts-texts) + 0.5) / (float64(texts) + 0.5))
	mean := float64(c.Words) / float64(c.Texts)
	frequency := float64(count)
	return rarity * frequency * (saturation + 1) /
		(frequency + saturation*(1-length+length*float64(words)/mean))
}
