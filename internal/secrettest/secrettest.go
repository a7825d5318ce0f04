// Package secrettest finds secrets in what servers log, and answer, while they are
// tested. Tests register the keys and tokens that they use with Secret, log to Logger,
// and end with Exit, which fails a run that has shown one of them.
//
// It is for tests alone. All of it may be used from any goroutine.
package secrettest

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

// FileVariable is the environment variable with the name of a file to which Secret
// adds a line for each secret, so that others can look for them, too.
const FileVariable = "BYLINE_TEST_SECRETS"

var (
	mu      sync.Mutex
	secrets = map[string]bool{} // guarded by mu
	leaks   []string            // guarded by mu
)

// token is what every signed token looks like, registered or not.
var token = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)

// Secret registers a secret and returns it.
func Secret(secret string) string {
	mu.Lock()
	defer mu.Unlock()
	if len(secret) < 8 || strings.ContainsAny(secret, "\r\n") {
		return secret // too short to tell, or not the form in which it could be shown
	}
	for _, form := range []string{secret, url.QueryEscape(secret)} {
		if secrets[form] {
			continue
		}
		secrets[form] = true
		if name := os.Getenv(FileVariable); name != "" {
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

// Find returns the secret that a text shows, "" if there is none.
func Find(text []byte) string {
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

// Look remembers a text that shows a secret until Exit.
func Look(text []byte) {
	if Find(text) == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	leaks = append(leaks, string(text))
}

// Writer looks at what is written to it, as Look does.
var Writer io.Writer = writer{}

type writer struct{}

func (writer) Write(p []byte) (int, error) {
	Look(p)
	return len(p), nil
}

// Logger returns a logger of all levels that keeps nothing but what shows a secret.
func Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(Writer, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Exit ends the process of a test with its status, or with 1 if a secret was shown.
func Exit(status int) {
	mu.Lock()
	defer mu.Unlock()
	for _, leak := range leaks {
		fmt.Fprintf(os.Stderr, "FAIL: a secret was shown: %s\n", leak)
		status = 1
	}
	os.Exit(status)
}
