package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"byline/bench/article"
	"byline/store/emulator"
)

// runArticle runs `byline bench article` on one author's posts and returns what it prints.
func runArticle(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, log output
	status := run(t.Context(), append([]string{"bench", "article", "--users", "1", "--runs", "2"}, args...), &out, &log, nil)
	if status != want {
		t.Fatalf("%v: status %d: %s %s", args, status, &out, &log)
	}
	return out.String() + log.String()
}

// TestBenchArticle runs it on an engine of its own, of which nothing is left.
func TestBenchArticle(t *testing.T) {
	temp, charts := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	out := runArticle(t, 0, "--markdown", "--check", "--chart", charts)
	if !strings.Contains(out, "| Q6<br/>") || strings.Count(out, "RU (") != 30 {
		t.Error(out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", err, left)
	}
	for _, name := range []string{"article-ru.svg", "article-ru.png"} {
		if _, err := os.Stat(filepath.Join(charts, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBenchGrowth runs it twice on data that stay.
func TestBenchGrowth(t *testing.T) {
	data := t.TempDir()
	for range 2 {
		var out, log output
		if status := run(t.Context(), []string{"bench", "growth", "--users", "1", "--times", "2", "--runs", "2", "--data", data, "--json"}, &out, &log, nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		var l article.Latencies
		if err := json.Unmarshal([]byte(out.String()), &l); err != nil || len(l.Reads) != 6 || l.Posts[0] >= l.Posts[1] {
			t.Errorf("%v: %s", err, &out)
		}
	}
	for _, users := range []string{"1", "2"} {
		if _, err := os.Stat(filepath.Join(data, users+"-users-seed-1")); err != nil {
			t.Error(err)
		}
	}
}

// TestBenchRefuses is what is found before anything is loaded.
func TestBenchRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no users":               {"article", "--users", "0"},
		"more users than fit":    {"article", "--users", "20000", "--growth"},
		"no runs":                {"article", "--runs", "0"},
		"two formats":            {"article", "--json", "--markdown"},
		"nowhere for the charts": {"article", "--chart", file},
		"an account of no kind":  {"article", "--cosmos-endpoint", "account"},
		"a growth that is none":  {"growth", "--times", "1"},
		"a growth of the last":   {"growth", "--users", "100000", "--times", "11"},
		"a growth without runs":  {"growth", "--runs", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log output
			if status := run(t.Context(), append([]string{"bench"}, args...), &out, &log, nil); status != 1 || strings.Contains(log.String(), "msg=") || out.String() != "" {
				t.Errorf("status %d: %s %s", status, &out, &log)
			}
		})
	}
}

// TestBenchArticleOnAnAccount runs it twice on an emulator, where its databases stay until
// they are to be removed.
func TestBenchArticleOnAnAccount(t *testing.T) {
	t.Setenv("COSMOS_KEY", emulator.WellKnownKey)
	var log output
	address := make(chan net.Addr, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"emulator", "--http", "--listen", "localhost:0", "--data", t.TempDir(), "--partitions", "2", "--sync=false"}, &log, &log, func(a net.Addr) { address <- a })
	}()
	defer func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("emulator: status %d: %s", status, &log)
		}
	}()
	account := []string{"--cosmos-endpoint", "http://" + (<-address).String() + "/"}
	var seeded output
	for _, model := range article.Versions() {
		if status := run(ctx, append([]string{"seed", "--users", "1", "--model", model}, account...), &seeded, &log, nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
	}
	if text := seeded.String(); !strings.Contains(text, "database byline-bench-article-v1-1-users-seed-1: ") || strings.Count(text, "digest") != 3 {
		t.Error(text)
	}
	var report article.Report
	out, _, _ := strings.Cut(runArticle(t, 0, append(account, "--json")...), "\n")
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Cells) != 30 {
		t.Errorf("%v: %s", err, out)
	}
	runArticle(t, 0, append(account, "--remove")...)
	interrupted, interrupt := context.WithCancel(ctx)
	defer interrupt()
	var measuring output
	go func() {
		for interrupted.Err() == nil && !strings.Contains(measuring.String(), "msg=requests") {
			time.Sleep(10 * time.Millisecond)
		}
		interrupt()
	}()
	if status := run(interrupted, append([]string{"bench", "article", "--users", "1", "--runs", "100000", "--remove"}, account...), io.Discard, &measuring, nil); status != 1 {
		t.Errorf("interrupted: status %d: %s", status, &measuring)
	}
	db, err := cosmosConfig{CosmosEndpoint: account[1]}.connect(t.Context(), slog.New(slog.DiscardHandler), traces{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	left, err := db.client.NewQueryDatabasesPager("SELECT * FROM c", nil).NextPage(ctx)
	if err != nil || len(left.Databases) != 0 {
		t.Errorf("%v, %v are left", err, left.Databases)
	}
}
