package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
)

// SecretsVariable is the environment variable with the name of a file to which Secret appends each
// secret, so that other programs can look for them.
const SecretsVariable = "BYLINE_TEST_SECRETS"

var (
	mu      sync.Mutex
	secrets = map[string]bool{} // guarded by mu
	leaks   []string            // guarded by mu
)

// token matches every signed token, registered or not.
var token = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)

// Secret registers a secret and returns it.
func Secret(secret string) string {
	mu.Lock()
	defer mu.Unlock()
	if len(secret) < 8 || strings.ContainsAny(secret, "\r\n") {
		return secret // too short to identify, or not logged in this form
	}
	for _, form := range []string{secret, url.QueryEscape(secret)} {
		if secrets[form] {
			continue
		}
		secrets[form] = true
		if name := os.Getenv(SecretsVariable); name != "" {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintln(f, form)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				panic(err)
			}
		}
	}
	return secret
}

// FindSecret returns a secret that a text contains, or "".
func FindSecret(text []byte) string {
	if found := token.Find(text); found != nil {
		return string(found)
	}
	mu.Lock()
	defer mu.Unlock()
	for secret := range secrets {
		if bytes.Contains(text, []byte(secret)) {
			return secret
		}
	}
	return ""
}

// LookForSecrets records a text that contains a secret, for Exit.
func LookForSecrets(text []byte) {
	if FindSecret(text) == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	leaks = append(leaks, string(text))
}

// LogWriter calls LookForSecrets for each write.
var LogWriter io.Writer = writer{}

type writer struct{}

func (writer) Write(p []byte) (int, error) {
	LookForSecrets(p)
	return len(p), nil
}

// Logger returns a logger of all levels that writes to LogWriter.
func Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(LogWriter, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Exit ends the process of a test with its status, or with 1 if a secret was leaked.
func Exit(status int) {
	mu.Lock()
	defer mu.Unlock()
	for _, leak := range leaks {
		fmt.Fprintf(os.Stderr, "FAIL: a secret was leaked: %s\n", leak)
		status = 1
	}
	os.Exit(status)
}
