package graph

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// However a text comes in parts, it is passed on if it is valid, and refused if not.
func TestUTF8Reader(t *testing.T) {
	for _, text := range []string{
		"", "plain", "ä", "aä", "日本語", "👩‍👧", "a👩", "\x00", "\ufffd",
		"\xff", "a\xff", "\xffa", "ä\xc3", "\xc3", "\xe6\x97", "\xf0\x9f\x91", "\xc3\xc3", "\xc3a", "\xe6\x97a", "\xf0\x9f\x91\xff",
		"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", strings.Repeat("日", 1000) + "\xe6", strings.Repeat("ä", 1000),
	} {
		for name, r := range map[string]io.Reader{
			"at once":                 strings.NewReader(text),
			"byte by byte":            iotest.OneByteReader(strings.NewReader(text)),
			"by halves":               iotest.HalfReader(strings.NewReader(text)),
			"with the end in the end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := io.ReadAll(&utf8Reader{r: r})
			switch {
			case utf8.ValidString(text) && (err != nil || string(got) != text):
				t.Errorf("%q %s: %q, %v", text, name, got, err)
			case !utf8.ValidString(text) && !errors.Is(err, errNotUTF8):
				t.Errorf("%q %s: %q, %v", text, name, got, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(&utf8Reader{r: io.MultiReader(strings.NewReader("a\xc3"), iotest.ErrReader(broken))}); err != broken {
		t.Error(err)
	}
}
