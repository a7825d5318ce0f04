package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store/emulator"
)

func TestMain(m *testing.M) {
	// The key of the engines that tests reach over HTTP.
	if err := os.Setenv("COSMOS_KEY", testkit.Secret(emulator.WellKnownKey)); err != nil {
		panic(err)
	}
	testkit.Exit(m.Run())
}

// output collects what a command prints. It is safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	testkit.LookForSecrets(p)
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// onFirst is an output that calls a function when a text is written.
type onFirst struct {
	output
	text string
	call func()
}

func (o *onFirst) Write(p []byte) (int, error) {
	if strings.Contains(string(p), o.text) {
		o.call()
	}
	return o.output.Write(p)
}

// TestHelp compares the flags of --help with those of the README.
func TestHelp(t *testing.T) {
	documented, shown, all := map[string]bool{}, map[string]bool{}, ""
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (`--[a-z-]+`(?:, `--[a-z-]+`)*) \\|").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		for _, flag := range regexp.MustCompile("--[a-z-]+").FindAllString(row[1], -1) {
			documented[flag] = true
		}
	}
	for _, command := range []string{"article", "growth", "load"} {
		var out output
		if status := run(t.Context(), []string{command, "--help"}, &out, io.Discard); status != 0 {
			t.Errorf("exit status %d", status)
		}
		all += out.String()
		for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(out.String(), -1) {
			if flag != "--help" {
				shown[flag] = true
			}
		}
	}
	for _, flag := range []string{"--duration=30s", "--skew=1.1"} {
		if !strings.Contains(all, flag+" ") {
			t.Errorf("--help does not show the default %s", flag)
		}
	}
	if len(shown) < 8 || !maps.Equal(shown, documented) {
		t.Errorf("--help shows %v\nthe docs have %v", slices.Sorted(maps.Keys(shown)),
			slices.Sorted(maps.Keys(documented)))
	}
}
