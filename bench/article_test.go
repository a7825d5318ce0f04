package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/bench/article"
	"byline/internal/account"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// runArticle runs `bench article` on one author's posts and returns what it prints.
func runArticle(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, log output
	status := run(t.Context(), append([]string{"article", "--users", "1", "--runs", "2"}, args...), &out, &log)
	if status != want {
		t.Fatalf("%v: status %d: %s %s", args, status, &out, &log)
	}
	return out.String() + log.String()
}

// TestBenchArticle runs `bench article` on a temporary engine, and checks that its files are deleted.
func TestBenchArticle(t *testing.T) {
	testkit.Heavy(t)
	temp, charts := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	out := runArticle(t, 0, "--markdown", "--check", "--chart", charts)
	if !strings.Contains(out, "| Q6<br/>") || strings.Count(out, "RU (") != 30 {
		t.Error(out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", err, left)
	}
	for _, name := range []string{"article-ru.svg", "article-ru.png"} {
		if _, err := os.Stat(filepath.Join(charts, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBenchGrowth runs `bench growth` twice in the same data directory.
func TestBenchGrowth(t *testing.T) {
	data := t.TempDir()
	for range 2 {
		var out, log output
		if status := run(t.Context(),
			[]string{"growth", "--users", "1", "--times", "2", "--runs", "2", "--data", data, "--json"}, &out,
			&log); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		var l article.Latencies
		if err := json.Unmarshal([]byte(out.String()), &l); err != nil || len(l.Reads) != 6 ||
			l.Posts[0] >= l.Posts[1] {
			t.Errorf("%v: %s", err, &out)
		}
	}
	for _, users := range []string{"1", "2"} {
		if _, err := os.Stat(filepath.Join(data, users+"-users-seed-1")); err != nil {
			t.Error(err)
		}
	}
}

// TestBench_InvalidFlags: invalid flags are refused before anything is loaded.
func TestBench_InvalidFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no users":                {"article", "--users", "0"},
		"more users than fit":     {"article", "--users", "20000", "--growth"},
		"no runs":                 {"article", "--runs", "0"},
		"two formats":             {"article", "--json", "--markdown"},
		"charts to a file":        {"article", "--chart", file},
		"an invalid endpoint":     {"article", "--cosmos-endpoint", "account"},
		"a growth of one":         {"growth", "--times", "1"},
		"a growth over the limit": {"growth", "--users", "100000", "--times", "11"},
		"a growth without runs":   {"growth", "--runs", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log output
			if status := run(t.Context(), args, &out, &log); status != 1 || strings.Contains(log.String(), "msg=") ||
				out.String() != "" {
				t.Errorf("status %d: %s %s", status, &out, &log)
			}
		})
	}
}

// TestBenchArticle_OnAccount runs `bench article` twice on an emulator, where its databases stay until
// --remove is given.
func TestBenchArticle_OnAccount(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	engine, err := emulator.Open(t.TempDir(), emulator.Options{Partitions: 2, NoSync: true, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()
	endpoint := []string{"--cosmos-endpoint", server.URL}
	for range 2 {
		var report article.Report
		out, _, _ := strings.Cut(runArticle(t, 0, append(endpoint, "--json")...), "\n")
		if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Cells) != 30 {
			t.Errorf("%v: %s", err, out)
		}
	}
	db, err := account.Flags{CosmosEndpoint: server.URL}.Open(t.Context(), slog.New(slog.DiscardHandler),
		account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	databases := func() []azcosmos.DatabaseProperties {
		page, err := db.Client().NewQueryDatabasesPager("SELECT * FROM c", nil).NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return page.Databases
	}
	if kept := databases(); len(kept) != 3 {
		t.Errorf("databases kept: %v, want 3", kept)
	}
	runArticle(t, 0, append(endpoint, "--remove")...)
	if left := databases(); len(left) != 0 {
		t.Errorf("databases left: %v", left)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	measuring := onFirst{text: "msg=requests", call: interrupt}
	if status := run(interrupted,
		append([]string{"article", "--users", "1", "--runs", "10000", "--remove"}, endpoint...), io.Discard,
		&measuring); status != 1 {
		t.Errorf("interrupted: status %d: %s", status, &measuring.output)
	}
	if left := databases(); len(left) != 0 {
		t.Errorf("databases left: %v", left)
	}
}

// TestStop_AccountDoesNotRespond: an interrupt ends the command, although azcosmos retries
// reading the account's properties for a minute.
func TestStop_AccountDoesNotRespond(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	var log output
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"article", "--users", "1", "--cosmos-endpoint", server.URL}, io.Discard, &log)
	}()
	select {
	case status := <-ended:
		if status != 1 {
			t.Errorf("status %d: %s", status, &log)
		}
	case <-time.After(15 * time.Second):
		t.Error("still running")
		<-ended
	}
}
