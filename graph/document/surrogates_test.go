package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"pgregory.net/rapid"
)

// JSON is refused if the decoder would replace parts of it by replacement characters.
func TestCheckText(t *testing.T) {
	for text, want := range map[string]error{
		`"plain"`: nil, `"日本語 👩"`: nil, `"\u0041\n\\\""`: nil, `"\ud83d\ude00"`: nil, `"\uD83D\uDE00\uD83D\uDE00"`: nil, `"\\ud83d"`: nil, `"\\\\ud83d"`: nil,
		`"\ufffd"`: nil, `"\u`: nil, `\`: nil, `"\ud83`: nil, "\x00": nil, "": nil,
		`"\ud83d"`: ErrUnpairedSurrogate, `"\ude00"`: ErrUnpairedSurrogate, `"\ude00\ud83d"`: ErrUnpairedSurrogate, `"\ud83d\ud83d\ude00"`: ErrUnpairedSurrogate, `"\ud83d \ude00"`: ErrUnpairedSurrogate,
		`"\ud83d\\ude00"`: ErrUnpairedSurrogate, `"\\\ud83d"`: ErrUnpairedSurrogate, `"\uD83D\u0041"`: ErrUnpairedSurrogate, `"\ud83d\`: ErrUnpairedSurrogate, `{"\udfff":1}`: ErrUnpairedSurrogate,
		"\"\xff\"": errNotUTF8, "\"\xc3": errNotUTF8, "\xed\xa0\x80": errNotUTF8, "\xc0\xaf": errNotUTF8, "\xf4\x90\x80\x80": errNotUTF8,
	} {
		if err := checkText(text); err != want {
			t.Errorf("checkText(%q) = %v, want %v", text, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`\`, `\\`, "u", "d83d", `\ud83d`, `\ude00`, "a"}), 0, 12).Draw(t, "text"), "")
		var decoded string
		if json.Unmarshal([]byte(`"`+text+`"`), &decoded) != nil {
			return
		}
		if err := checkText(text); (err != nil) != strings.ContainsRune(decoded, utf8.RuneError) {
			t.Errorf("checkText(%q) = %v, but it decodes to %q", text, err, decoded)
		}
	})
}

// Escaped surrogate pairs in strings are replaced by their characters, and nothing else of the
// document changes.
func TestJoinSurrogates(t *testing.T) {
	const unpaired = "unpaired"
	for document, want := range map[string]string{
		`{ a(b: "\ud83d\ude00") }`:                       `{ a(b: "😀") }`,
		`{ a(b: "x\uD83D\uDE00y\"\\ud83d", c: "\u41") }`: `{ a(b: "x😀y\"\\ud83d", c: "\u41") }`,
		`{ a(b: "\ud83d") }`:                             unpaired,
		`{ a(b: "\ude00\ud83d") }`:                       unpaired,
		"{ a # \"\\ud83d\n (b: \"\\ude00\") }":           unpaired,
		"{ a # \"\\ud83d\n (b: 1) }":                     "{ a # \"\\ud83d\n (b: 1) }",
		"{ a # \"\\ud83d":                                "{ a # \"\\ud83d",
		`{ a(b: """\ud83d \""" " """, c: "\ud83d") }`:    unpaired,
		`{ a(b: """\ud83d \""" " """, c: "d") }`:         `{ a(b: """\ud83d \""" " """, c: "d") }`,
		`{ a(b: "", c: "#", d: "\ud83d") }`:              unpaired,
		`{ a(b: """""", c: "\ud83d") }`:                  unpaired,
		`{ a(b: """\ud83d`:                               `{ a(b: """\ud83d`,
		"{ a(b: \"\n\\ud83d":                             "{ a(b: \"\n\\ud83d",
	} {
		got, err := joinSurrogates(document)
		if errors.Is(err, ErrUnpairedSurrogate) {
			got = unpaired
		}
		if got != want {
			t.Errorf("joinSurrogates(%s) = %s, want %s", document, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '"', '\\', '#', 'u', 'd', '\n', 'é', '😀', utf8.MaxRune}), 0, 20, -1).Draw(t, "text")
		literal := ""
		for _, unit := range utf16.Encode([]rune(text)) {
			literal += fmt.Sprintf(`\u%04x`, unit)
		}
		document, err := joinSurrogates(`# "` + "\n" + `{ a(b: "` + literal + `" c: "") }`)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseQuery(&ast.Source{Input: document})
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.Operations[0].SelectionSet[0].(*ast.Field).Arguments.ForName("b").Value.Raw; got != text {
			t.Errorf("parsed %q, want %q", got, text)
		}
	})
}
