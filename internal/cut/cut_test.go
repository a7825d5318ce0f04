package cut

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCharacters(t *testing.T) {
	const family = "👩\u200d👩\u200d👧"
	for _, c := range []struct {
		name, text string
		max        int
		want       string
	}{
		{"short -> unchanged", "one two", 7, "one two"},
		{"a space at the limit -> there", "one two three", 7, "one two"},
		{"a space near the limit -> there", "one two three", 9, "one two"},
		{"no space near the limit -> at the limit", "Go " + strings.Repeat("言", 20), 12, "Go 言言言言言言言言言"},
		{"a long address -> at the limit", "Look: https://example.com/a", 20, "Look: https://exampl"},
		{"several spaces -> before them", "one  two", 5, "one"},
		{"other spaces", "aaaaaaa\u3000b c", 8, "aaaaaaa"},
		{"a long word -> left out", strings.Repeat("a", 50) + " " + strings.Repeat("b", 50), 75,
			strings.Repeat("a", 50)},
		{"a longer word -> cut", strings.Repeat("a", 50) + " " + strings.Repeat("b", 50), 76,
			strings.Repeat("a", 50) + " " + strings.Repeat("b", 25)},
		{"half of the text", "one two three four", 9, "one two"},
		{"less than half", "one three", 8, "one thre"},
		{"accents -> not separated", "aaae\u0301b", 4, "aaa"},
		{"accents within -> kept", "aaae\u0301b", 5, "aaae\u0301"},
		{"joined emoji -> not separated", "ab" + family + "c", 6, "ab"},
		{"joined emoji within -> kept", "ab" + family + "c", 7, "ab" + family},
		{"flags -> by pairs", "🇩🇪🇫🇷🇮🇹", 3, "🇩🇪"},
		{"Hindi -> by syllables", "नमस्ते", 5, "नम"},
		{"Thai -> with its vowels", "กำที่", 4, "กำ"},
		{"Korean jamo -> by syllables", "\u1112\u1161\u11ab\u1100\u1173\u11af", 4, "\u1112\u1161\u11ab"},
		{"a line break -> not separated", "aaaaaaa\r\nb", 8, "aaaaaaa"},
		{"one cluster -> cut", "e" + strings.Repeat("\u0301", 10), 5, "e" + strings.Repeat("\u0301", 4)},
		{"spaces alone", "     a", 4, "    "},
		{"nothing", "abc", 0, ""},
		{"empty", "", 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if have := Characters(c.text, c.max); have != c.want {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		max        int
		want       string
	}{
		{"short -> unchanged", "é", 2, "é"},
		{"within a character -> before it", "aéé", 4, "aé"},
		{"within a cluster -> before it", "aae\u0301", 4, "aa"},
		{"a space near the limit -> there", "one two three", 9, "one two"},
		{"invalid UTF-8", "a\xff\xffb", 2, "a\xff"},
		{"nothing", "é", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if have := Bytes(c.text, c.max); have != c.want {
				t.Errorf("have %q, want %q", have, c.want)
			}
		})
	}
}

func FuzzCharacters(f *testing.F) {
	f.Add("one two", 5)
	f.Add("नमस्ते", 3)
	f.Fuzz(func(t *testing.T, text string, max int) {
		if max %= 100; max < 0 || !utf8.ValidString(text) {
			return
		}
		short := Characters(text, max)
		if !strings.HasPrefix(text, short) || !utf8.ValidString(short) || utf8.RuneCountInString(short) > max ||
			utf8.RuneCountInString(text) <= max && short != text {
			t.Errorf("%q cut at %d is %q", text, max, short)
		}
	})
}
