package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"byline/bench"
	"byline/store/emulator"
)

// article runs `byline bench article` on one author's posts and returns what it prints.
func article(t *testing.T, want int, args ...string) string {
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
	out := article(t, 0, "--markdown", "--check", "--chart", charts)
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
	for _, model := range bench.Versions() {
		if status := run(ctx, append([]string{"seed", "--users", "1", "--model", model}, account...), &seeded, &log, nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
	}
	if text := seeded.String(); !strings.Contains(text, "database byline-bench-article-v1-1-users-seed-1: ") || strings.Count(text, "digest") != 3 {
		t.Error(text)
	}
	var report bench.Report
	out, _, _ := strings.Cut(article(t, 0, append(account, "--json")...), "\n")
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Cells) != 30 {
		t.Errorf("%v: %s", err, out)
	}
	article(t, 0, append(account, "--remove")...)
	db, err := cosmosConfig{CosmosEndpoint: account[1]}.connect(slog.New(slog.DiscardHandler), traces{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	left, err := db.client.NewQueryDatabasesPager("SELECT * FROM c", nil).NextPage(ctx)
	if err != nil || len(left.Databases) != 0 {
		t.Errorf("%v, %v are left", err, left.Databases)
	}
}
