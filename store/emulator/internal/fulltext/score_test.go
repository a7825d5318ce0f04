package fulltext

import (
	"math"
	"testing"
)

func TestScore(t *testing.T) {
	c := Collection{Texts: 4, Words: 40}
	// ln(1 + 3.5/1.5) * 2*2.2 / (2 + 1.2) for a text of mean length
	if got, want := c.Score(2, 10, 1), math.Log(1+3.5/1.5)*4.4/3.2; math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
	switch {
	case c.Score(0, 10, 1) != 0, (Collection{}).Score(1, 1, 1) != 0:
		t.Error("a text without the phrase has a score")
	case c.Score(2, 10, 1) <= c.Score(1, 10, 1):
		t.Error("a second occurrence does not count")
	case c.Score(1, 5, 1) <= c.Score(1, 10, 1):
		t.Error("a shorter text does not count more")
	case c.Score(1, 10, 1) <= c.Score(1, 10, 2):
		t.Error("a rarer phrase does not count more")
	case c.Score(1, 10, 4) <= 0:
		t.Error("a phrase that all texts have does not count")
	}
}
