package testkit

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	t.Setenv(SecretsVariable, file)
	key := Secret("a key+of/an account==")
	Secret("short")
	for text, want := range map[string]string{
		"nothing":                               "",
		"a short one":                           "",
		"it is " + key + ".":                    key,
		"?sig=" + url.QueryEscape(key) + "&a=b": url.QueryEscape(key),
		"Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlIQ": "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlIQ",
		"eyJhbGciOiJFUzI1NiJ9, which is the beginning of a token alone": "",
	} {
		if got := FindSecret([]byte(text)); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	lines, err := os.ReadFile(file)
	if err != nil || string(lines) != fmt.Sprintln(key)+fmt.Sprintln(url.QueryEscape(key)) {
		t.Errorf("file %q, %v", lines, err)
	}
}

func TestLogger_SecretInError(t *testing.T) {
	key := Secret("another key of an account")
	Logger().With("key", "harmless").Debug("message")
	before := len(leaks)
	Logger().Debug("message", "error", fmt.Errorf("the key %s is wrong", key))
	if len(leaks) != before+1 || !strings.Contains(leaks[before], key) {
		t.Errorf("leaks %q, want one with the key", leaks)
	}
	leaks = nil
}
