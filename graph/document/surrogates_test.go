package document

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// JSON is refused if the decoder would replace parts of it by replacement characters.
func TestCheckText(t *testing.T) {
	for text, want := range map[string]error{
		`"plain"`: nil, `"日本語 👩"`: nil, `"\u0041\n\\\""`: nil, `"\ud83d\ude00"`: nil,
		`"\uD83D\uDE00\uD83D\uDE00"`: nil, `"\\ud83d"`: nil, `"\\\\ud83d"`: nil,
		`"\ufffd"`: nil, `"\u`: nil, `\`: nil, `"\ud83`: nil, "\x00": nil, "": nil,
		`"\ud83d"`: ErrUnpairedSurrogate, `"\ude00"`: ErrUnpairedSurrogate, `"\ude00\ud83d"`: ErrUnpairedSurrogate,
		`"\ud83d\ud83d\ude00"`: ErrUnpairedSurrogate, `"\ud83d \ude00"`: ErrUnpairedSurrogate,
		`"\ud83d\\ude00"`: ErrUnpairedSurrogate, `"\\\ud83d"`: ErrUnpairedSurrogate,
		`"\uD83D\u0041"`: ErrUnpairedSurrogate, `"\ud83d\`: ErrUnpairedSurrogate, `{"\udfff":1}`: ErrUnpairedSurrogate,
		"\"\xff\"": errNotUTF8, "\"\xc3": errNotUTF8, "\xed\xa0\x80": errNotUTF8, "\xc0\xaf": errNotUTF8,
		"\xf4\x90\x80\x80": errNotUTF8,
	} {
		if err := checkText(text); err != want {
			t.Errorf("checkText(%q) = %v, want %v", text, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(
			rapid.SliceOfN(rapid.SampledFrom([]string{`\`, `\\`, "u", "d83d", `\ud83d`, `\ude00`, "a"}), 0, 12).Draw(t,
				"text"), "")
		var decoded string
		if json.Unmarshal([]byte(`"`+text+`"`), &decoded) != nil {
			return
		}
		if err := checkText(text); (err != nil) != strings.ContainsRune(decoded, utf8.RuneError) {
			t.Errorf("checkText(%q) = %v, but it decodes to %q", text, err, decoded)
		}
	})
}
