package fulltext

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTerms(t *testing.T) {
	for _, one := range []struct{ language, text, want string }{
		{English, "The red bicycles, running!", "1 red, 2 bicycl, 3 run"},
		{English, "State-of-the-art", "0 state, 3 art"},
		{English, "Anna's café isn’t Ünder 3.14", "0 anna, 1 café, 2 isn't, 3 ünder, 4 3.14"},
		{English, "a of the", ""},
		{English, " \x00…—!", ""},
		{English, "C++ and c# x", "0 c, 2 c, 3 x"},
		{"de-DE", "Die Häuser the running", "0 die, 1 häuser, 2 the, 3 running"},
		{"de-DE", "東京 Кошки", "0 東, 1 京, 2 кошки"},
		{English, strings.Repeat("é", 100), "0 " + strings.Repeat("é", 64)},
		{English, "bad \xff\xfe bytes", "0 bad, 1 byte"},
	} {
		var got []string
		for term := range For(one.language).Terms([]byte(one.text)) {
			got = append(got, fmt.Sprintf("%d %s", term.Position, term.Text))
		}
		if d := cmp.Diff(one.want, strings.Join(got, ", ")); d != "" {
			t.Errorf("%s %q: %s", one.language, one.text, d)
		}
	}
	if !slices.IsSorted(stopWords) {
		t.Error("the stop words are not sorted")
	}
}

func TestPhrase_Count(t *testing.T) {
	for _, one := range []struct {
		phrase, text string
		want         int
	}{
		{"red bicycle", "A red bicycle. Two red bicycles; a bicycle is red.", 2},
		{"bicycle", "bicycles bicycle", 2},
		{"state of the art", "state of the art", 1},
		{"state of the art", "state in my art", 1}, // a stop word stands for any word
		{"state of the art", "state art", 0},
		{"a b a", "x a", 0},
		{"no no", "no", 0},
		{"ha ha", "ha ha ha", 2},
		{"", "anything", 0},
		{"missing word", "word", 0},
		{"word missing", "word", 0},
	} {
		text := For(English).Analyze([]byte(one.text))
		got := For(English).Phrase([]byte(one.phrase)).Count(func(s string) []int { return text.Positions[s] })
		if got != one.want {
			t.Errorf("%q in %q: %d times, want %d", one.phrase, one.text, got, one.want)
		}
	}
}

// TestPhrase_CountRandom compares Count with a search at every position.
func TestPhrase_CountRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	text := func(n int) string {
		var list []string
		for range n {
			list = append(list, []string{"x", "y", "z", "the"}[r.IntN(4)])
		}
		return strings.Join(list, " ")
	}
	for range 2000 {
		long, short := text(r.IntN(30)), text(r.IntN(5))
		in, p := For(English).Analyze([]byte(long)), For(English).Phrase([]byte(short))
		want := 0
		for start := -5; start < 30 && len(p) > 0; start++ {
			found := true
			for _, term := range p {
				found = found && slices.Contains(in.Positions[term.Text], start+term.Position)
			}
			if found {
				want++
			}
		}
		if got := p.Count(func(s string) []int { return in.Positions[s] }); got != want {
			t.Fatalf("%q in %q: %d times, want %d", short, long, got, want)
		}
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("The state-of-the-art café's 3,000 東京")
	f.Add("''' \xff’s ing")
	f.Fuzz(func(t *testing.T, text string) {
		for _, language := range []string{English, "fr-FR"} {
			last := -1
			for term := range For(language).Terms([]byte(text)) {
				if term.Position <= last || term.Text == "" || len(term.Text) > MaxTerm ||
					strings.Contains(term.Text, "\x00") || utf8.ValidString(text) && !utf8.ValidString(term.Text) {
					t.Fatalf("%q has the term %+v after %d", text, term, last)
				}
				last = term.Position
			}
		}
	})
}
