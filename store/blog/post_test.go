package blog

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"byline/store/blog/markdown"
)

// TestHasMarkup_Words: of a text without markup, readers see the words.
func TestHasMarkup_Words(t *testing.T) {
	plain := 0
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"word", "zwei", "a", " ", "  ", "\n", "\n\n", "\r", "\t", "#", ">", "+",
		"-", "---", "=", "===", "|", "|-|", ":-:", ":", "1.", "12)", "*", "_", "`", "~~", "[x]", "(y)", "!", "<b>", "&amp;",
		`\`, "\"", "'", "http://example.com", "www.example.com", "a@example.com", "\u00a0", "\u2028", "é"}), 1, 12)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(pieces.Draw(t, "pieces"), "")
		if len(text) > ExcerptLength || hasMarkup(text) {
			return
		}
		plain++
		h, err := markdown.Render(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		seen := h.Excerpt(ExcerptLength)
		if words := strings.Join(strings.Fields(text), " "); words != seen {
			t.Fatalf("of %q readers see %q, not %q", text, seen, words)
		}
	})
	if plain == 0 {
		t.Error("every text has markup")
	}
	for _, marker := range []string{"# x", "> x", "+ x", "- x", "---", "===", "|-|", ":-:", "1. x", "    x", "\tx", "\r-|-"} {
		if text := "word\n" + marker; !hasMarkup(text) {
			t.Errorf("%q has no markup", text)
		}
	}
	for _, text := range []string{"One line.", "Two\nlines, and\n\ntwo paragraphs: 3 - 2 = 1."} {
		if hasMarkup(text) {
			t.Errorf("%q has markup", text)
		}
	}
}
