package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"byline/internal/secrettest"
	"byline/internal/servertest"
)

// TestWrongKey_NotPrinted: commands do not print a key that the account rejects.
func TestWrongKey_NotPrinted(t *testing.T) {
	emulator := startEmulator(t, "--key", secrettest.Secret("cmlnaHQga2V5IG9mIHRoZSBhY2NvdW50"))
	t.Setenv("COSMOS_KEY", secrettest.Secret("d3Jvbmcga2V5IG9mIHRoZSBhY2NvdW50"))
	for _, args := range [][]string{{"--listen", "localhost:0"}, {"views", "status"}} {
		var out, log output
		if status := run(t.Context(), append(args, emulator...), &out, &log, nil); status != 1 || !strings.Contains(log.String(), "is the key right?") {
			t.Errorf("status %d: %s", status, log.String())
		}
		if found := secrettest.Find([]byte(out.String() + log.String())); found != "" {
			t.Errorf("prints the secret %s", found)
		}
	}
}

// TestSecurityNamesTests: each test that SECURITY.md names exists.
func TestSecurityNamesTests(t *testing.T) {
	text, err := os.ReadFile(servertest.Path("SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir(servertest.Path("."), func(path string, d os.DirEntry, err error) error {
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
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9]\\w+)`").FindAllSubmatch(text, -1)
	if len(named) < 10 {
		t.Errorf("SECURITY.md names %d tests", len(named))
	}
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("SECURITY.md names %s, which does not exist", m[1])
		}
	}
}
