package jsonstring_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"byline/internal/jsonstring"
)

func TestPlain_EachByte(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			b := []byte(strings.Repeat("é", 9))
			b[at] = byte(c)
			want := len(b)
			if c < ' ' || c == '"' || c == '\\' {
				want = at
			}
			if got := jsonstring.PlainLen(string(b)); got != want {
				t.Fatalf("PlainLen(%q) is %d, want %d", b, got, want)
			}
			if got := jsonstring.HasControls(b); got != (c < ' ') {
				t.Fatalf("HasControls(%q) is %t", b, got)
			}
		}
	}
}

func TestPlain_RandomBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "s"))
		first := func(escaped func(byte) bool) int {
			for i := range len(s) {
				if escaped(s[i]) {
					return i
				}
			}
			return len(s)
		}
		control := func(c byte) bool { return c < ' ' }
		want := first(func(c byte) bool { return control(c) || c == '"' || c == '\\' })
		if got := jsonstring.PlainLen(s); got != want {
			t.Errorf("PlainLen(%q) is %d, want %d", s, got, want)
		}
		if got := jsonstring.HasControls([]byte(s)); got != (first(control) < len(s)) {
			t.Errorf("HasControls(%q) is %t", s, got)
		}
	})
}
