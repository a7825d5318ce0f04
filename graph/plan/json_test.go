package plan

import (
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"pgregory.net/rapid"
)

// appendText encodes any text as the executor does.
func TestAppendText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// what is escaped, and what differs by a bit
		b := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("a\x1f !\"#[\\]\xa2\xdc")))
		s := string(rapid.SliceOf(b).Draw(t, "text"))
		var want strings.Builder
		graphql.MarshalString(s).MarshalGQL(&want)
		if got := string(appendText(nil, s)); got != want.String() {
			t.Errorf("appendText(%q) = %s, want %s", s, got, &want)
		}
	})
}
