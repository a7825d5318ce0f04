package query

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzContinuation: only tokens that encode returns are accepted.
func FuzzContinuation(f *testing.F) {
	fingerprint := [8]byte{1, 2, 3}
	f.Add(continuation{fingerprint: fingerprint, plan: planComposite, span: 1, emitted: 2, started: true,
		after: []byte("x")}.encode())
	f.Add(continuation{fingerprint: fingerprint, plan: planSorted, started: true, after: []byte("z")}.encode())
	f.Add("BQECAwAAAAAABAEAAAABAAAAAAAAAAJ4eR==") // nonzero trailing bits
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := decodeContinuation(text)
		if err == nil && token.encode() != strings.NewReplacer("\r", "", "\n", "").Replace(text) &&
			utf8.ValidString(text) {
			t.Errorf("%q is accepted as %+v", text, token)
		}
	})
}
