package search

import (
	"fmt"
	"strings"
	"testing"

	"byline/store/cosmos"
)

// TestWords_Engine: snippets mark what the embedded engine finds. A text matches a term if, and only if, the engine
// finds it, and it has as many words there.
func TestWords_Engine(t *testing.T) {
	texts := []string{"The red bicycles, running!", "red bicycle", "State-of-the-art", "state in my art", "state art",
		"Anna's café isn’t Ünder 3.14", "isn't under cafe", "a of the", " \x00…—!", "C++ and c# x", "東京 Кошки",
		"京東 кошка", strings.Repeat("é", 100), strings.Repeat("é", 64), strings.Repeat("é", 63) + "a",
		strings.Repeat("a", 65) + "s", strings.Repeat("a", 64) + "s", strings.Repeat("a", 63) + "s",
		strings.Repeat("x", 200), strings.Repeat("x", 128), "bad \ufffd bytes", "byte", "happiness happy happily",
		"İstanbul ß ﬁ", "istanbul ss fi", "node.js 1,000 1000", "snake_case camelCase", "a\u0301b áb",
		"\u202eright \ufeffmark", "don't don’t dont", "한국어 ไทย العربية हिन्दी தமிழ்", "𐍈𐌰 𝔘𝔫𝔦 𠮷",
		"👩‍👩‍👧‍👦 🇩🇪 🚲x", "'' ' x'y 'quoted'", "² ſ ½ Ⅳ", "the theirs there's", "x\x00y", "x\u00ady",
		"generously generation general", "skies sky dying die", "ʼn I'll we’ve", "The THE thé", "kelvin \u212aelvin"}
	s := openSearcher(t, texts, nil)
	find := func(condition string) map[string]int64 {
		t.Helper()
		found := map[string]int64{}
		request := cosmos.Query{Partition: "2020s",
			Text: "SELECT c.id, _FullTextWordCount(c.text) AS words FROM c WHERE " + condition}
		err := eachRow(t.Context(), s.container, request, func(r struct {
			ID    string
			Words int64
		}) {
			found[r.ID] = r.Words
		})
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		return found
	}
	counts, terms := find("true"), map[string]bool{}
	for i, text := range texts {
		words := int64(0)
		for w := range wordsOf(text) {
			if terms[text[w.start:w.end]] = true; w.stem != "" {
				words++
			}
		}
		terms[text] = true
		if got := counts[fmt.Sprint(i)]; got != words {
			t.Errorf("%q has %d words, and %d in the engine", text, words, got)
		}
	}
	for text := range terms {
		term, found := appendTerm(nil, text), find("FullTextContains(c.text, "+quote(text)+")")
		for i, text := range texts {
			_, n := Query{must: term}.matches(text)
			if _, ok := found[fmt.Sprint(i)]; ok != (n > 0) {
				t.Errorf("%+v matches %q: %t, in the engine: %t", term, text, n > 0, ok)
			}
		}
	}
}
