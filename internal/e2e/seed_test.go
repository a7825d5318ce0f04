package e2e

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// TestSeed_ResumesAfterKill kills a seed, runs it again, and compares the data with those of an uninterrupted seed,
// and the projections with their sources.
func TestSeed_ResumesAfterKill(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	whole, killed := t.TempDir(), t.TempDir()
	args := func(data string) []string {
		return []string{"seed", "--users", "25", "--seed", "3", "--data", data, "--digest"}
	}
	seed := func(data string) string {
		var out, log output
		if status := run(t.Context(), args(data), &out, &log, nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		return out.String()
	}
	var log output
	cmd := servertest.Command(args(killed)...)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: cmd}
	defer p.Kill()
	eventually(t, func() error {
		if !strings.Contains(log.String(), "msg=posts") {
			return errors.New("nothing is loaded")
		}
		return nil
	})
	p.Kill()
	want, resumed := seed(whole), seed(killed)
	if want != resumed || !strings.Contains(want, "digest") {
		t.Errorf("resumed: %s; in one go: %s", resumed, want)
	}
	if again := seed(killed); again != want {
		t.Errorf("again: %s; before: %s", again, want)
	}
	var out output
	if status := run(t.Context(), []string{"seed", "--users", "25", "--seed", "3", "--data", killed}, &out, io.Discard,
		nil); status != 0 || out.String() != "" {
		t.Errorf("without --digest: status %d: %s", status, &out)
	}
	var refused output
	if status := run(t.Context(), append(args(killed), "--users", "26"), io.Discard, &refused, nil); status != 1 ||
		!strings.Contains(refused.String(), "--users") {
		t.Errorf("another size over it: status %d: %s", status, &refused)
	}
	if status := run(t.Context(), []string{"views", "verify", "--data", killed}, io.Discard, &log, nil); status != 0 {
		t.Errorf("status %d: %s", status, &log)
	}
}

// TestSeed_InvalidFlags: invalid flags are refused before a data directory is created.
func TestSeed_InvalidFlags(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"--users", "0"}, {"--users", "1000001"}, {"--users", "many"}, {"--seed=-1"},
		{"--feed-partitions", "65"}} {
		var log output
		if status := run(t.Context(), append([]string{"seed", "--data", data}, args...), &log, &log, nil); status != 1 {
			t.Errorf("%v: status %d: %s", args, status, &log)
		}
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestSeed_AccountElsewhere: without --yes, seed sends no request to an account that is not on a loopback address.
func TestSeed_AccountElsewhere(t *testing.T) {
	var requests atomic.Int32
	account := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer account.Close()
	t.Setenv("COSMOS_ENDPOINT", strings.Replace(account.URL, "127.0.0.1", "0.0.0.0", 1)) // which reaches it, too
	t.Setenv("COSMOS_KEY", testkit.Secret("a2V5IG9mIGEgdGVzdA=="))
	var log output
	if status := run(t.Context(), []string{"seed", "--users", "1"}, &log, &log, nil); status != 1 ||
		requests.Load() != 0 || !strings.Contains(log.String(), "--yes") {
		t.Errorf("without --yes: status %d, %d requests: %s", status, requests.Load(), &log)
	}
	if run(t.Context(), []string{"seed", "--users", "1", "--yes"}, &log, &log, nil); requests.Load() == 0 {
		t.Errorf("with --yes: no request: %s", &log)
	}
}

// TestSeed_NoFullTextSearch: an account without the capability gets the blog, and its digest is printed.
func TestSeed_NoFullTextSearch(t *testing.T) {
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	refused := false
	account := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if strings.HasSuffix(r.URL.Path, "/colls") && bytes.Contains(body, []byte(`"fullTextPolicy"`)) {
			refused = true
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(account.Close)
	t.Setenv("COSMOS_ENDPOINT", account.URL)
	t.Setenv("COSMOS_KEY", emulator.WellKnownKey)
	var out, log output
	if status := run(t.Context(), []string{"seed", "--users", "1", "--digest"}, &out, &log, nil); status != 0 ||
		!strings.Contains(out.String(), "digest") || !refused {
		t.Errorf("status %d, refused: %v: %s%s", status, refused, &out, &log)
	}
}
