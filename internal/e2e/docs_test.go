package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"byline/internal/servertest"
)

// TestDocs_Length: the README can be read in five minutes, and the pages of docs say each thing once.
func TestDocs_Length(t *testing.T) {
	for pattern, limit := range map[string]int{"README.md": 1200, "docs/*.md": 20000} {
		pages, err := filepath.Glob(servertest.Path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		words := 0
		for _, page := range pages {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			words += len(strings.Fields(string(b)))
		}
		if words == 0 || words > limit {
			t.Errorf("%s has %d words, want at most %d", pattern, words, limit)
		}
	}
}
