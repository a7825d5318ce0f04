package e2e

import (
	"byline/internal/servertest"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExplain_DocumentedExample: the example in docs/cost.md is the output of the command for the document above it.
func TestExplain_DocumentedExample(t *testing.T) {
	docs, err := os.ReadFile(servertest.Path("docs/cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(docs), "$ cat front.graphql\n")
	document, rest, _ := strings.Cut(example, "$ byline explain front.graphql\n")
	want, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("there is no example")
	}
	file := filepath.Join(t.TempDir(), "front.graphql")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log output
	if status := run(t.Context(), []string{"explain", file}, &out, &log, nil); status != 0 || out.String() != want {
		t.Errorf("status %d, %s: prints\n%s", status, &log, &out)
	}
}

// TestExplain_NoDatabase: `byline explain` needs no database and creates none.
func TestExplain_NoDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("front.graphql",
		[]byte("query Front($n: Int) { feed(first: $n) { edges { node { author { createdAt } } } } }\nquery Me { "+
			"viewer { username } }"), 0o600); err != nil {
		t.Fatal(err)
	}
	explain := func(args ...string) (status int, stdout, stderr string) {
		var out, log output
		status = run(t.Context(), append([]string{"explain"}, args...), &out, &log, nil)
		return status, out.String(), log.String()
	}
	status, table, _ := explain("front.graphql")
	for _, want := range []string{"query Front: 5.94 RU predicted", "| feed      |     1 |", "| ReadMany ",
		"query Me: 1.00 RU predicted"} {
		if status != 0 || !strings.Contains(table, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, table)
		}
	}
	status, lines, _ := explain("--json", "--variables", `{"n": 100}`, "front.graphql")
	decoder := json.NewDecoder(strings.NewReader(lines))
	var all []map[string]any
	for {
		var e map[string]any
		if err := decoder.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if status != 0 || len(all) != 2 || at(t, all[0], "predictedRU") != 11.18 ||
		at(t, all[0], "fields.1.requests.0.container") != "users" {
		t.Errorf("status %d: %s", status, lines)
	}
	status, table, _ = explain("--feed-partitions", "4", "front.graphql")
	if status != 0 || !strings.Contains(table, "(one of post.0 to post.3)") {
		t.Errorf("status %d, a feed of 4 partitions:\n%s", status, table)
	}
	status, table, stderr := explain("--variables", `{"n": 1000}`, "front.graphql")
	if status != 1 || stderr != "byline: front.graphql: 1 of 2 operations would be refused\n" ||
		!strings.Contains(table, "query Front: 0.00 RU predicted\nrefused for its page size or its ids: feed\n") ||
		!strings.Contains(table, "query Me: 1.00 RU predicted") {
		t.Errorf("status %d, too large a page: %s\n%s", status, stderr, table)
	}
	if status, _,
		stderr := explain("--feed-partitions", "65", "front.graphql"); status != 1 ||
		!strings.Contains(stderr, "1 to 64") {
		t.Errorf("status %d, want 1: %s", status, stderr)
	}
	if status, _, stderr := explain("absent.graphql"); status != 1 || !strings.Contains(stderr, "absent.graphql") {
		t.Errorf("status %d, want 1: %s", status, stderr)
	}
	if status, _,
		stderr := explain("--variables", "n", "front.graphql"); status != 1 ||
		!strings.Contains(stderr, "not a JSON object") {
		t.Errorf("status %d, want 1: %s", status, stderr)
	}
	if entries, err := filepath.Glob("*"); len(entries) != 1 || err != nil {
		t.Errorf("files %v, want front.graphql alone: %v", entries, err)
	}
}

// TestExplain_Stdin: `byline explain -` reads the document from stdin.
func TestExplain_Stdin(t *testing.T) {
	for name, tt := range map[string]struct {
		document, stdout, stderr string
		status                   int
	}{
		"accepted": {"{ viewer { username } }", "query: 1.00 RU predicted\n", "", 0},
		"too expensive": {"{ feed(first: 100) { edges { node { comments(first: 100) { edges { cursor } } } } } }",
			"refused by default: ", "byline: stdin: 1 of 1 operations would be refused\n", 1},
		"an unknown field": {"{ nothing }", "", "byline: stdin: line 1, column 3: ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log output
			cmd := servertest.Command("explain", "-")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.document), &out, &log
			_ = cmd.Run()
			if status := cmd.ProcessState.ExitCode(); status != tt.status ||
				!strings.Contains(out.String(), tt.stdout) || !strings.HasPrefix(log.String(), tt.stderr) {
				t.Errorf("status %d, %s: prints\n%s", status, &log, &out)
			}
		})
	}
}
