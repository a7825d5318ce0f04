package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"byline/internal/servertest"
	"byline/internal/testkit"
)

// TestWrongKey_NotPrinted: commands do not print a key that the account rejects.
func TestWrongKey_NotPrinted(t *testing.T) {
	emulator := startEmulator(t, "--key", testkit.Secret("cmlnaHQga2V5IG9mIHRoZSBhY2NvdW50"))
	t.Setenv("COSMOS_KEY", testkit.Secret("d3Jvbmcga2V5IG9mIHRoZSBhY2NvdW50"))
	for _, args := range [][]string{{"--listen", "localhost:0"}, {"views", "status"}} {
		var out, log output
		if status := run(t.Context(), append(args, emulator...), &out, &log, nil); status != 1 ||
			!strings.Contains(log.String(), "is the key right?") {
			t.Errorf("status %d: %s", status, log.String())
		}
		if found := testkit.FindSecret([]byte(out.String() + log.String())); found != "" {
			t.Errorf("prints the secret %s", found)
		}
	}
}

// TestDocsNameTests: each test that SECURITY.md and CONTRIBUTING.md name exists.
func TestDocsNameTests(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir(servertest.Path("."), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"SECURITY.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(servertest.Path(file))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9]\\w+)`").FindAllSubmatch(text, -1)
		if len(named) < 10 {
			t.Errorf("%s names %d tests", file, len(named))
		}
		for _, m := range named {
			if !tests[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}
