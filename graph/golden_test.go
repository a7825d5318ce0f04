package graph

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

// Each testdata/golden/<case>.graphql is sent to the small blog, and the answer is
// compared with <case>.json. Comments at the top of the file may say who asks and
// with what variables:
//
//	# token: demo:ada
//	# variables: {"id": "<post:engines>"}
//
// where <post:engines> is the global id of what has that name in smallBlog.
func TestGoldens(t *testing.T) {
	cases, err := filepath.Glob("testdata/golden/*.graphql")
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	shared := smallBlog(t, Options{})
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".graphql")
		t.Run(name, func(t *testing.T) {
			query, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b := shared
			if strings.Contains(string(query), "mutation") {
				b = smallBlog(t, Options{})
			}
			b.wire.reset()
			a := send(t, b, goldenRequest(t, b, string(query)))
			b.wire.checkPartitions(t)
			var got bytes.Buffer
			if err := json.Indent(&got, []byte(a.body), "", "  "); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, "graphql") + "json"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-golden +answer):\n%s", diff)
			}
		})
	}
}

func goldenRequest(t *testing.T, b *blog, query string) *http.Request {
	t.Helper()
	body := map[string]any{"query": b.fill(query)}
	r := httptest.NewRequest("POST", "/graphql", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", mediaResponse)
	r.Header.Set(requestIDHeader, "golden")
	for line := range strings.Lines(query) {
		text, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		switch key, value, _ := strings.Cut(strings.TrimSpace(text), ": "); key {
		case "token":
			r.Header.Set("Authorization", "Bearer "+value)
		case "variables":
			body["variables"] = json.RawMessage(b.fill(value))
		}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	with := httptest.NewRequest("POST", "/graphql", bytes.NewReader(encoded))
	with.Header = r.Header
	return with
}
