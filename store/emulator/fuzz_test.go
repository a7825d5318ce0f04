package emulator

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// FuzzRequestBody sends a body with every kind of request that has one: the response is always one
// of the protocol, JSON, never 5xx.
func FuzzRequestBody(f *testing.F) {
	for _, s := range []string{
		`{"id":"1","pk":"p"}`, `{"id":"1","pk":"p","ttl":-1,"a":{"b":[1,2,{"c":null}]},"_ts":1}`, `{"id":"a","id":"b"}`,
		`{"condition":"from c where c.x = 1","operations":[{"op":"incr","path":"/n","value":1},{"op":"add","path":"/l/-","value":[]},{"op":"move","from":"/a","path":"/b"}]}`,
		`[{"operationType":"Create","resourceBody":{"id":"2","pk":"p"}},{"operationType":"Patch","id":"2","resourceBody":{"operations":[{"op":"remove","path":"/x"}]}},{"operationType":"Delete","id":"2","ifMatch":"*"}]`,
		`{"query":"SELECT * FROM c WHERE c.a = @a ORDER BY c.b DESC","parameters":[{"name":"@a","value":{"x":1}}]}`,
		`{"query":"SELECT TOP 1 VALUE c.id FROM c WHERE c.id IN ('a') AND c.n > 1e400"}`,
		`{"query":"SELECT * FROM c OFFSET 1 LIMIT 9223372036854775807"}`,
		`{"query":"SELECT c.id FROM c WHERE FullTextContainsAny(c.name, 'n1', @a) AND c.rank > 0 ORDER BY _FullTextScore(c.name, ['n1'], 5, 5, [1]) DESC","parameters":[{"name":"@a","value":"x y"}]}`,
		`{"query":"SELECT TOP 3 * FROM c ORDER BY RANK RRF(FullTextScore(c.name, 'n1'), FullTextScore(c.type, 'x'), [1, -2])"}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/name"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/name"}]}}`,
		`{"id":"1","pk":"p","name":"The caf\u0000\ud800é's 東京 n1"}`,
		`null`, `[]`, `{`, "\xff", `{"id":"\u0000","pk":"\ud800"}`, `[null]`, `{"operations":[null]}`,
	} {
		f.Add(s)
	}
	e, err := Open("", Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	policy := blogPolicy()
	policy.FullTextIndexes = []azcosmos.FullTextIndex{{Path: "/name"}}
	c := newContainer(f, e, azcosmos.ContainerProperties{IndexingPolicy: policy,
		FullTextPolicy: &azcosmos.FullTextPolicy{
			DefaultLanguage: "en-US", FullTextPaths: []azcosmos.FullTextPath{{Path: "/name"}}}})
	fillBlog(f, c, "p", 5)
	key := `["p"]`
	requests := []struct {
		method, path string
		header       http.Header
	}{
		{"POST", "/dbs/db/colls/c/docs", http.Header{"X-Ms-Documentdb-Is-Upsert": {"true"}}},
		{"PUT", "/dbs/db/colls/c/docs/1", nil},
		{"PATCH", "/dbs/db/colls/c/docs/c00001", nil},
		{"POST", "/dbs/db/colls/c/docs", http.Header{"X-Ms-Cosmos-Is-Batch-Request": {"true"}}},
		{"POST", "/dbs/db/colls/c/docs",
			http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Documentdb-Query": {"true"}}},
		{"POST", "/dbs", http.Header{"Content-Type": {"application/query+json"}}},
		{"PUT", "/dbs/db/colls/c", nil},
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, r := range requests {
			h := r.header.Clone()
			if h == nil {
				h = http.Header{}
			}
			h.Set("X-Ms-Documentdb-Partitionkey", key)
			res, err := e.Do(signed(t, r.method, r.path, h, []byte(body)))
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if res.StatusCode >= 500 || res.ContentLength > 0 && json.NewDecoder(res.Body).Decode(&v) != nil {
				t.Fatalf("%s %s with %q: %s", r.method, r.path, body, res.Status)
			}
		}
		if _, err := c.ReadItem(context.Background(), pk("p"), "c00000", nil); err != nil && statusOf(err) != 404 {
			t.Fatal(err)
		}
	})
}
