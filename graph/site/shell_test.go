package site

import (
	"strings"
	"testing"
)

// TestShell_Policy: scripts send pictures to the origins of uploads, which may serve them without https.
func TestShell_Policy(t *testing.T) {
	s, err := readShell(testDir, "index.html", []string{"https://login.example", "http://127.0.0.1:10000"},
		[]string{"http://127.0.0.1:10000"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"connect-src 'self' https://login.example http://127.0.0.1:10000",
		"img-src 'self' https: data: blob: http://127.0.0.1:10000", "object-src 'none'"} {
		if !strings.Contains(s.policy+";", want+";") {
			t.Errorf("%q does not have %q", s.policy, want)
		}
	}
}
