package emulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

// numbered creates items with n = i/2, kind "even" or "odd", and s = prefix plus n, in the logical
// partitions p0, p1 and p2.
func numbered(t testing.TB, c *azcosmos.ContainerClient, count int, prefix string) {
	t.Helper()
	for i := range count {
		key, kind := fmt.Sprintf("p%d", i%3), []string{"even", "odd"}[i%2]
		mustCreate(t, c, key,
			fmt.Sprintf(`{"id":"%03d","pk":%q,"kind":%q,"n":%d,"s":"%s%03d"}`, i, key, kind, i/2, prefix, i/2))
	}
}

// TestContinuation_NarrowedFilter: SDKs that merge physical partitions resume ORDER BY with a filter on the values
// of the last row that the application saw. The token is that of its page, or of the page before.
func TestContinuation_NarrowedFilter(t *testing.T) {
	policy := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
		CompositeIndexes: [][]azcosmos.CompositeIndex{
			{{Path: "/kind", Order: azcosmos.CompositeIndexAscending},
				{Path: "/n", Order: azcosmos.CompositeIndexAscending}}}}
	for name, one := range map[string]struct {
		text   string // with %s for the filter
		atMost string // compares n with that of the last row
		header []string
	}{
		"sorted":             {"SELECT c.id, c.n FROM c WHERE (%s) ORDER BY c.n", ">=", nil},
		"sorted, descending": {"SELECT c.id, c.n FROM c WHERE (%s) ORDER BY c.n DESC", "<=", nil},
		"sorted, equality": {"SELECT c.id, c.n FROM c WHERE (c.kind = 'odd') AND (%s) ORDER BY c.n", ">=",
			nil},
		"sorted, TOP": {"SELECT TOP 17 c.id, c.n FROM c WHERE (%s) ORDER BY c.n", ">=", nil},
		"sorted, OFFSET": {"SELECT c.id, c.n FROM c WHERE (%s) ORDER BY c.n OFFSET 0 LIMIT 17", ">=",
			nil},
		"in a logical partition": {"SELECT c.id, c.n FROM c WHERE (%s) ORDER BY c.n", ">=",
			[]string{"X-Ms-Documentdb-Partitionkey", `["p1"]`}},
		"composite index": {"SELECT c.id, c.n FROM c WHERE (c.kind = 'odd') AND (%s) ORDER BY c.kind, c.n", ">=",
			[]string{"X-Ms-Documentdb-Partitionkey", `["p1"]`}},
		"composite index, descending": {"SELECT c.id, c.n FROM c WHERE (c.kind = 'odd') AND (%s) ORDER BY c.n DESC",
			"<=", []string{"X-Ms-Documentdb-Partitionkey", `["p1"]`}},
		"composite index, one logical": {"SELECT c.id, c.n FROM c WHERE (c.kind = 'odd') AND c.pk = 'p1' AND (%s) " +
			"ORDER BY c.n", ">=",
			[]string{"X-Ms-Documentdb-Partitionkeyrangeid", "", "X-Ms-Documentdb-Query-Enablecrosspartition", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Options{})
			numbered(t, newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: policy}), 60, "")
			type row struct {
				ID string
				N  int
			}
			read := func(filter, token string, size int) (rows []row, next string) {
				page := queryRange(t, e, "c", "0", token, fmt.Sprintf(one.text, filter),
					append([]string{"X-Ms-Max-Item-Count", fmt.Sprint(size)}, one.header...)...)
				if page.status != http.StatusOK {
					t.Fatalf("%s: %d", fmt.Sprintf(one.text, filter), page.status)
				}
				for _, d := range page.Documents {
					var r row
					mustUnmarshal(t, d, &r)
					rows = append(rows, r)
				}
				return rows, page.token
			}
			want, _ := read("true", "", 100)
			var got []row
			token := ""
			for filter := "true"; ; {
				rows, next := read(filter, token, 3)
				if got = append(got, rows...); next == "" {
					break
				}
				filter = fmt.Sprintf("c.n %s %d", one.atMost, rows[len(rows)-1].N)
				if limited := strings.Contains(name, "TOP") || strings.Contains(name, "OFFSET"); !limited {
					again, _ := read(filter, token, 100) // the page before: rows that the application saw come again
					if at := slices.Index(want, again[0]); !slices.Equal(again, want[at:]) || at > len(got)-1 {
						t.Fatalf("%s with the token of the page before: got %v, want %v", filter, again, want[at:])
					}
				}
				token = next
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestContinuation_Order: a token is refused for rows in another order, for groups and named items of another query,
// and for another logical partition.
func TestContinuation_Order(t *testing.T) {
	e := newEngine(t, Options{})
	numbered(t, newContainer(t, e, azcosmos.ContainerProperties{}), 60, "")
	for _, one := range []struct{ text, other string }{
		{"SELECT c.id FROM c ORDER BY c.n", "SELECT c.id FROM c ORDER BY c.n DESC"},
		{"SELECT c.id FROM c ORDER BY c.n", "SELECT c.id FROM c ORDER BY c.s"},
		{"SELECT c.id FROM c ORDER BY c.n", "SELECT c.id FROM c"},
		{"SELECT c.id FROM c", "SELECT c.id FROM c ORDER BY c.n"},
		{"SELECT c.id FROM c WHERE c.kind = 'odd'", "SELECT c.id FROM c"},
		{"SELECT c.id FROM c WHERE c.kind = 'odd'", "SELECT c.id FROM c WHERE c.kind = 'even'"},
		{"SELECT DISTINCT c.n FROM c", "SELECT DISTINCT c.s FROM c"},
		{"SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
			"SELECT c.n, COUNT(1) AS k FROM c WHERE c.n > 1 GROUP BY c.n"},
		{"SELECT c.id FROM c WHERE c.pk = 'p0' AND c.id IN ('000', '003', '006')",
			"SELECT c.id FROM c WHERE c.pk = 'p0' AND c.id IN ('003', '000', '006')"},
	} {
		token := queryRange(t, e, "c", "0", "", one.text, "X-Ms-Max-Item-Count", "1").token
		if token == "" {
			t.Fatalf("%s: no token", one.text)
		}
		if page := queryRange(t, e, "c", "0", token, one.text); page.status != http.StatusOK {
			t.Errorf("%s: %d", one.text, page.status)
		}
		if page := queryRange(t, e, "c", "0", token, one.other); page.status != http.StatusBadRequest {
			t.Errorf("%s with the token of %s: %d, want 400", one.other, one.text, page.status)
		}
	}
	for _, text := range []string{"SELECT c.id FROM c WHERE c.pk = 'p%d'",
		"SELECT c.id FROM c WHERE c.pk = 'p%d' ORDER BY c.n"} {
		whole := []string{"X-Ms-Documentdb-Partitionkeyrangeid", "", "X-Ms-Documentdb-Query-Enablecrosspartition",
			"true", "X-Ms-Max-Item-Count", "1"}
		token := queryRange(t, e, "c", "", "", fmt.Sprintf(text, 0), whole...).token
		if page := queryRange(t, e, "c", "", token, fmt.Sprintf(text, 1), whole...); token == "" ||
			page.status != http.StatusBadRequest {
			t.Errorf("%s: the token %q of another logical partition: %d, want 400", text, token, page.status)
		}
	}
}

// TestContinuation_CrossPartition: a client that merges partitions may send its own token with the query: it is told to
// merge before anything looks at the token.
func TestContinuation_CrossPartition(t *testing.T) {
	e := newEngine(t, Options{Partitions: 2})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for _, text := range []string{"SELECT * FROM c ORDER BY c.n", "SELECT TOP 3 * FROM c",
		"SELECT * FROM c OFFSET 1 LIMIT 2",
		"SELECT COUNT(1) AS k FROM c", "SELECT SUM(c.n) / COUNT(1) AS mean FROM c"} {
		body, err := json.Marshal(map[string]string{"query": text})
		if err != nil {
			t.Fatal(err)
		}
		res := do(t, e, "POST", "/dbs/db/colls/c/docs", string(body), "Content-Type", "application/query+json",
			"x-ms-documentdb-query-enablecrosspartition", "true", "x-ms-continuation",
			`{"rangeMappings":[{"continuationToken":"abc"}]}`)
		out, err := io.ReadAll(res.Body)
		var failure struct{ AdditionalErrorInfo string }
		if err != nil || res.StatusCode != 400 || res.Header.Get("X-Ms-Substatus") != "1004" ||
			json.Unmarshal(out, &failure) != nil ||
			!json.Valid([]byte(failure.AdditionalErrorInfo)) {
			t.Errorf("%s: %s, substatus %q, %s: want 400/1004 with a string of JSON", text, res.Status,
				res.Header.Get("X-Ms-Substatus"), out)
		}
	}
}

// TestContinuation_Limit: a token is no longer than x-ms-documentdb-responsecontinuationtokenlimitinkb says, and a
// query that this makes impossible is refused by name.
func TestContinuation_Limit(t *testing.T) {
	const header = "x-ms-documentdb-responsecontinuationtokenlimitinkb"
	long := strings.Repeat("long", 500)
	query := func(e *Engine, text, token, limit string) *http.Response {
		return do(t, e, "POST", "/dbs/db/colls/c/docs", `{"query":"`+text+`"}`, "Content-Type",
			"application/query+json",
			"x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-max-item-count", "4", "x-ms-continuation", token, header,
			limit)
	}
	t.Run("long values that differ early", func(t *testing.T) {
		e := newEngine(t, Options{})
		c := newContainer(t, e, azcosmos.ContainerProperties{})
		for i := range 20 {
			mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%03d","pk":"p","s":"%03d%s"}`, i, i*7%20, long))
		}
		for _, text := range []string{"SELECT VALUE c.id FROM c ORDER BY c.s",
			"SELECT VALUE c.id FROM c ORDER BY c.s DESC", "SELECT DISTINCT VALUE c.s FROM c"} {
			rows, longest, token := 0, 0, ""
			for {
				res := query(e, text, token, "1")
				var page struct{ Documents []json.RawMessage }
				out, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s %s", text, res.Status, out)
				}
				mustUnmarshal(t, out, &page)
				rows += len(page.Documents)
				if token = res.Header.Get("X-Ms-Continuation"); token == "" {
					break
				}
				longest = max(longest, len(token))
			}
			if rows != 20 || longest > 1<<10 {
				t.Errorf("%s: %d rows, a token of %d bytes, want 20 and at most 1,024", text, rows, longest)
			}
		}
	})
	t.Run("long values that differ late", func(t *testing.T) {
		e := newEngine(t, Options{})
		numbered(t, newContainer(t, e, azcosmos.ContainerProperties{}), 20, long)
		for limit, want := range map[string]int{"1": 400, "4": 200, "1000000000": 200, "": 200} {
			res := query(e, "SELECT VALUE c.id FROM c ORDER BY c.s", "", limit)
			out, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != want || want == 400 && !strings.Contains(string(out), header) {
				t.Errorf("limit %q: %s %s, want %d", limit, res.Status, out, want)
			}
		}
	})
	t.Run("long ids", func(t *testing.T) {
		e := newEngine(t, Options{})
		c := newContainer(t, e, azcosmos.ContainerProperties{})
		for i := range 9 {
			mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%03d%s","pk":"p"}`, i, long[:1000]))
		}
		rows, token := 0, ""
		for {
			res := do(t, e, "POST", "/dbs/db/colls/c/docs", `{"query":"SELECT VALUE 1 FROM c"}`, "Content-Type",
				"application/query+json",
				"x-ms-documentdb-partitionkey", `["p"]`, "x-ms-max-item-count", "4", "x-ms-continuation", token,
				header, "1")
			rows += len(documentsOf(readAll(t, res)))
			if token = res.Header.Get("X-Ms-Continuation"); token == "" {
				break
			}
			if len(token) > 1<<10 {
				t.Errorf("a token of %d bytes", len(token))
			}
		}
		if rows != 9 {
			t.Errorf("%d rows, want 9", rows)
		}
	})
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for _, invalid := range []string{"0", "-1", "x", "1.5"} {
		res := query(e, "SELECT VALUE c.id FROM c", "", invalid)
		if out := string(readAll(t, res)); res.StatusCode != 400 || !strings.Contains(out, header) {
			t.Errorf("limit %q: %s %s, want 400", invalid, res.Status, out)
		}
	}
}

func readAll(t testing.TB, res *http.Response) []byte {
	t.Helper()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
