package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestCreate_InvalidNamesAndKeys: names and keys that the service refuses are refused, and nothing is
// created.
func TestCreate_InvalidNamesAndKeys(t *testing.T) {
	e := newEngine(t, Options{})
	if res := do(t, e, "POST", "/dbs", `{"id":"db"}`); res.StatusCode != 201 {
		t.Fatal(res.Status)
	}
	quoted := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	create := func(path, body string) (int, string) {
		res := do(t, e, "POST", path, body)
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for _, id := range []any{"", "a/b", `a\b`, "a?b", "a#b", "a ", "a\nb", "a\x00b", "a\x01b", "a\x7fb", "a\u0085b",
		strings.Repeat("x", 256), 7, nil} {
		if status, body := create("/dbs", `{"id":`+quoted(id)+`}`); status != 400 {
			t.Errorf("database %q: %d %s", id, status, body)
		}
		if status, body := create("/dbs/db/colls",
			`{"id":`+quoted(id)+`,"partitionKey":{"paths":["/pk"]}}`); status != 400 {
			t.Errorf("container %q: %d %s", id, status, body)
		}
	}
	for _, paths := range []any{
		nil, []any{}, "/pk", []any{7}, []any{nil}, []any{""}, []any{"pk"}, []any{"/"}, []any{"//pk"}, []any{"/a//b"},
		[]any{"/a/"}, []any{"/*"}, []any{"/a/?"},
		[]any{"/a b"}, []any{"/a.b"}, []any{`/"a`}, []any{`/""`}, []any{`/"a"b`}, []any{"/a", "/a"},
		[]any{"/a", `/"a"`}, []any{"/a", "b"}, []any{"/a", "/b", "/c", "/d"},
	} {
		if status, body := create("/dbs/db/colls",
			`{"id":"c","partitionKey":{"paths":`+quoted(paths)+`}}`); status != 400 {
			t.Errorf("paths %s: %d %s", quoted(paths), status, body)
		}
	}
	list := func(n int, one string) string { // [one, one, ...], with numbers
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(one, "N", fmt.Sprint(i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	policies := func(unique, inUnique, composites, inComposite, included, excluded int) (int, string) {
		return create("/dbs/db/colls",
			fmt.Sprintf(
				`{"id":"limits","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":%s},"indexingPolicy":{"includedPaths":%s,"excludedPaths":%s,"compositeIndexes":%s}}`,
				list(unique, `{"paths":`+list(inUnique, `"/N"`)+`}`),
				`[{"path":"/*"},`+list(included-1, `{"path":"/N/?"}`)[1:], list(excluded, `{"path":"/xN/?"}`),
				list(composites, list(inComposite, `{"path":"/N"}`))))
	}
	for _, n := range [][6]int{{11, 1, 1, 2, 2, 1}, {1, 17, 1, 2, 2, 1}, {1, 1, 101, 2, 2, 1}, {1, 1, 1, 9, 2, 1},
		{1, 1, 1, 2, 1501, 1}, {1, 1, 1, 2, 2, 1501}} {
		if status, body := policies(n[0], n[1], n[2], n[3], n[4], n[5]); status != 400 {
			t.Errorf("policies %d: %d %s", n, status, body)
		}
	}
	for _, keys := range []string{`[{}]`, `[null]`, `[{"paths":[]}]`, `[{"paths":["/"]}]`, `[{"paths":["a"]}]`,
		`[{"paths":["/a"]},{"paths":["/b",""]}]`} {
		if status, body := create("/dbs/db/colls",
			`{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":`+keys+`}}`); status != 400 {
			t.Errorf("unique keys %s: %d %s", keys, status, body)
		}
	}
	if n := len(e.catalog.Load().databases); n != 1 {
		t.Errorf("%d databases, want 1", n)
	}
	if n := len(e.catalog.Load().databases["db"].containers); n != 0 {
		t.Errorf("%d containers", n)
	}
	for id, paths := range map[string][]string{
		strings.Repeat("é", 255): {"/pk"}, " a b%c": {"/a/b"}, "quotes": {`/"a b/c"/d`},
		"three": {"/a-b", "/a_b", "/Straße"},
	} {
		if status, body := create("/dbs/db/colls",
			`{"id":`+quoted(id)+`,"partitionKey":{"paths":`+quoted(paths)+`}}`); status != http.StatusCreated {
			t.Errorf("%s %s: %d %s", id, paths, status, body)
		}
	}
	if status, body := policies(10, 16, 100, 8, 1500, 1499); status != http.StatusCreated { // and the path of the ETag
		t.Errorf("policies at the limits: %d %s", status, body)
	}
}

// TestCreateContainer_ReplacedConcurrently: the response has the container as created. For the race
// detector.
func TestCreateContainer_ReplacedConcurrently(t *testing.T) {
	e := newEngine(t, Options{})
	do(t, e, "POST", "/dbs", `{"id":"db"}`)
	for i := range 20 {
		path, created := fmt.Sprintf("/dbs/db/colls/c%d", i), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for done := false; !done; {
				select {
				case <-created:
					done = true
				default:
				}
				if e.catalog.Load().databases["db"].containers[fmt.Sprint("c", i)] == nil {
					continue
				}
				do(t, e, "PUT", path, fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"]},"defaultTtl":5}`, i))
			}
		})
		res := do(t, e, "POST", "/dbs/db/colls", fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"]}}`, i))
		close(created)
		if b, err := io.ReadAll(res.Body); err != nil || strings.Contains(string(b), "defaultTtl") {
			t.Errorf("got %s %v, want the container as created", b, err)
		}
		wg.Wait()
	}
}

// TestLockedContainer_RequestCanceled: a request that waits for a locked container ends with its context
// and changes nothing.
func TestLockedContainer_RequestCanceled(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	locked, release, changed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	undone := errors.New("undone")
	go func() {
		changed <- e.changeMeta(context.Background(), func(m *metaChange) error {
			m.lock(m.cat.databases["db"].containers["c"])
			close(locked)
			<-release
			return undone
		})
	}()
	<-locked
	timeout := time.AfterFunc(time.Minute, func() { close(release) })
	const key, query, coll = "X-Ms-Documentdb-Partitionkey", "X-Ms-Documentdb-Isquery",
		`{"id":"%s","partitionKey":{"paths":["/pk"]}}`
	for _, r := range []struct {
		name, method, path, body string
		headers                  []string
	}{
		{"read", "GET", "/dbs/db/colls/c/docs/1", "", []string{key, `["p"]`}},
		{"create", "POST", "/dbs/db/colls/c/docs", `{"id":"1","pk":"p"}`, []string{key, `["p"]`}},
		{"query", "POST", "/dbs/db/colls/c/docs", `{"query":"SELECT * FROM c"}`, []string{key, `["p"]`, query, "true"}},
		{"batch", "POST", "/dbs/db/colls/c/docs", `[{"operationType":"Read","id":"1"}]`,
			[]string{key, `["p"]`, "X-Ms-Cosmos-Is-Batch-Request", "true", "X-Ms-Cosmos-Batch-Atomic", "true"}},
		{"bulk", "POST", "/dbs/db/colls/c/docs", `[{"operationType":"Read","id":"1","partitionKey":"[\"p\"]"}]`,
			[]string{key, `["p"]`, "X-Ms-Cosmos-Is-Batch-Request", "true", "X-Ms-Cosmos-Batch-Atomic", "false"}},
		{"change feed", "GET", "/dbs/db/colls/c/docs", "", []string{"A-Im", "Incremental Feed"}},
		{"partition key ranges", "GET", "/dbs/db/colls/c/pkranges", "", nil},
		{"container", "GET", "/dbs/db/colls/c", "", nil},
		{"containers", "GET", "/dbs/db/colls", "", nil},
		{"replace the container", "PUT", "/dbs/db/colls/c", fmt.Sprintf(coll, "c"), nil},
		{"delete the container", "DELETE", "/dbs/db/colls/c", "", nil},
		{"create a container", "POST", "/dbs/db/colls", fmt.Sprintf(coll, "d"), nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := http.Header{}
			for i := 0; i < len(r.headers); i += 2 {
				h.Set(r.headers[i], r.headers[i+1])
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			res, err := e.Do(signed(t, r.method, r.path, h, []byte(r.body)).WithContext(ctx))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("response: %t, error: %v, want %v", res != nil, err, context.DeadlineExceeded)
			}
		})
	}
	if !timeout.Stop() {
		t.Fatal("the requests waited for the lock")
	}
	close(release)
	if err := <-changed; !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if n := len(e.catalog.Load().databases["db"].containers); n != 1 {
		t.Errorf("%d containers", n)
	}
	if res := do(t, e, "GET", "/dbs/db/colls/c/docs/1", "", key, `["p"]`); res.StatusCode != http.StatusNotFound {
		t.Errorf("item of a canceled create: got status %d, want 404", res.StatusCode)
	}
}
