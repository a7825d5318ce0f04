package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSeedGoesOn kills a seed on its way, runs it again, and finds the data of one that
// was left in peace, and true copies.
func TestSeedGoesOn(t *testing.T) {
	whole, killed := t.TempDir(), t.TempDir()
	args := func(data string) []string { return []string{"seed", "--users", "25", "--seed", "3", "--data", data} }
	seed := func(data string) string {
		var out, log output
		if status := run(t.Context(), args(data), &out, &log, nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		return out.String()
	}
	var log output
	cmd := exec.Command(os.Args[0], args(killed)...)
	cmd.Env = append(os.Environ(), "BYLINE_TEST_MAIN=1")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	defer p.kill()
	eventually(t, func() error {
		if !strings.Contains(log.String(), "msg=posts") {
			return errors.New("it loads nothing")
		}
		return nil
	})
	p.kill()
	want, resumed := seed(whole), seed(killed)
	if want != resumed || !strings.Contains(want, "digest") {
		t.Errorf("resumed: %s; in one go: %s", resumed, want)
	}
	if again := seed(killed); again != want {
		t.Errorf("again: %s; before: %s", again, want)
	}
	if status := run(t.Context(), []string{"views", "verify", "--data", killed}, io.Discard, &log, nil); status != 0 {
		t.Errorf("status %d: %s", status, &log)
	}
}
