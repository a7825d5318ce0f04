package document

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"pgregory.net/rapid"
)

// A string has the characters of its escapes, of which surrogates are pairs.
func TestParse_Escapes(t *testing.T) {
	const unpaired = "unpaired"
	for text, want := range map[string]string{
		`"\ud83d\ude00"`:                      "😀",
		`"x\uD83D\uDE00y\"\\ud83d\u0041"`:     "x😀y\"\\ud83dA",
		`"\u{1F600}\u{41}\u{10FFFF}\u{0}"`:    "😀A\U0010FFFF\x00",
		`"\ud83d"`:                            unpaired,
		`"\ude00\ud83d"`:                      unpaired,
		`"\ud83d\u{de00}"`:                    "",
		`"\u{d83d}"`:                          "",
		`"\u{110000}"`:                        "",
		`"\u{}"`:                              "",
		`"\ud83d\u{1F600}"`:                   unpaired,
		`"a" # \ud83d`:                        "a",
		`"""\ud83d \""" " """`:                `\ud83d """ " `,
		`"""\""" """ c: "\ud83d"`:             unpaired,
		`"""""" c: "\ud83d"`:                  unpaired,
		"\"\"\"\n \\\"\"\" \\ud83d\n\"\"\"":   `""" \ud83d`,
		`"#" c: "\ud83d"`:                     unpaired,
		`"" c: """"\ud83d"""`:                 "",
		"\"\\ufffd\"":                         "\ufffd",
		"\"\ufffd\"":                          "\ufffd",
		`"" # " ` + "\n" + ` c: "\ud83d" # "`: unpaired,
	} {
		document, err := parse("{ a(b: " + text + "\n) }")
		got := ""
		switch {
		case err != nil && strings.Contains(err.Message, messageUnpairedSurrogate):
			got = unpaired
		case err == nil:
			got = document.Operations[0].SelectionSet[0].(*ast.Field).Arguments.ForName("b").Value.Raw
		}
		if got != want {
			t.Errorf("parse(%s) = %q, want %q: %v", text, got, want, err)
		}
	}
}

func TestParse_AnyEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '"', '\\', '#', 'u', 'd', '\n', 'é', '😀', utf8.MaxRune}), 0,
			20, -1).Draw(t, "text")
		literal := ""
		for _, unit := range utf16.Encode([]rune(text)) {
			literal += fmt.Sprintf(`\u%04x`, unit)
		}
		document, err := parse(`# "` + "\n" + `{ a(b: "` + literal + `" c: "") }`)
		if err != nil {
			t.Fatal(err)
		}
		if got := document.Operations[0].SelectionSet[0].(*ast.Field).Arguments.ForName("b").Value.Raw; got != text {
			t.Errorf("parsed %q, want %q", got, text)
		}
	})
}

// A token is located where its source is, whatever precedes it.
func TestTokens(t *testing.T) {
	sources := []string{"{", "}", "@", "...", "name", "$", "-1.5e3", `"s"`, `"é😀\""`, `"\ud83d\ude00"`, `""`, `""""""`,
		`"""a` + "\n" + `  é\"""😀` + "\r" + `"""`, "# é\n", "\n", "\r", " ", ",", "\ufeff"}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		var want []gqlerror.Location
		for _, source := range rapid.SliceOfN(rapid.SampledFrom(sources), 0, 15).Draw(t, "sources") {
			lines := strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
			if strings.Trim(source, "\n\r ,\ufeff") != "" {
				want = append(want,
					gqlerror.Location{Line: len(lines), Column: utf8.RuneCountInString(lines[len(lines)-1]) + 1})
			}
			text += source + " "
		}
		var got []gqlerror.Location
		for token := range tokens(text) {
			if token.Kind != lexer.EOF {
				got = append(got, token.begin)
			}
			if !strings.HasPrefix(text[len(text)-len(token.rest)-len(token.text):], token.text) {
				t.Errorf("token %q is not where its source is", token.text)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("tokens of %q are at %v, want %v", text, got, want)
		}
	})
}
