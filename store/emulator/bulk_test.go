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
	"github.com/google/go-cmp/cmp"

	"byline/store/emulator/internal/apierror"
)

// bulkResult is one element of the response to a batch.
type bulkResult struct {
	Status    int             `json:"statusCode"`
	SubStatus int             `json:"subStatusCode"`
	Charge    float64         `json:"requestCharge"`
	Body      json.RawMessage `json:"resourceBody"`
}

// bulk sends operations as SDKs do in bulk mode.
func bulk(t testing.TB, e *Engine, rangeID, body string, headers ...string) (*http.Response, []bulkResult) {
	t.Helper()
	res := do(t, e, "POST", "/dbs/db/colls/c/docs", body,
		append([]string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "false",
			"x-ms-cosmos-batch-continue-on-error", "true", "x-ms-documentdb-partitionkeyrangeid", rangeID},
			headers...)...)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var results []bulkResult
	if res.StatusCode < 300 {
		mustUnmarshal(t, b, &results)
	}
	return res, results
}

func bulkStatuses(results []bulkResult) (s []int) {
	for _, r := range results {
		s = append(s, r.Status)
	}
	return s
}

// bulkCreates is a batch of creates in the logical partition of key.
func bulkCreates(key string, ids ...string) string {
	var ops []string
	for _, id := range ids {
		ops = append(ops,
			fmt.Sprintf(`{"operationType":"Create","partitionKey":"[\"%s\"]","resourceBody":{"id":%q,"pk":%q}}`, key,
				id, key))
	}
	return "[" + strings.Join(ops, ",") + "]"
}

func TestBulk(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{Partitions: 2})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	at := func(key string) string { return partitionOfKey(t, e, key).ID() }
	other := otherRange(t, e, "p")
	same := "q" // another logical partition of the same physical one
	for at(same) != at("p") {
		same += "q"
	}
	mustCreate(t, c, "p", `{"id":"there","pk":"p","n":1}`)

	t.Run("each operation succeeds or fails on its own", func(t *testing.T) {
		res, results := bulk(t, e, at("p"), strings.NewReplacer("SAME", same).Replace(`[
			{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"new","pk":"p"}},
			{"operationType":"Create","partitionKey":"[\"SAME\"]","resourceBody":{"id":"new","pk":"SAME"}},
			{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"there","pk":"p"}},
			{"operationType":"Read","partitionKey":"[\"p\"]","id":"new"},
			{"operationType":"Patch","partitionKey":"[\"p\"]","id":"there","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}},
			{"operationType":"Replace","partitionKey":"[\"p\"]","id":"there","ifMatch":"\"stale\"","resourceBody":{"id":"there","pk":"p"}},
			{"operationType":"Delete","partitionKey":"[\"SAME\"]","id":"nothing"},
			{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":{"id":"elsewhere","pk":"SAME"}},
			{"operationType":"Upsert","resourceBody":{"id":"without a key","pk":"p"}},
			{"operationType":"Upsert","partitionKey":"[[]]","resourceBody":{"id":"no key","pk":"p"}},
			{"operationType":"Read","partitionKey":"[\"p\"]","id":"there","ifNoneMatch":"*"},
			{"operationType":"Nonsense","partitionKey":"[\"p\"]"},
			{"operationType":"Upsert","partitionKey":"[\"p\"]","minimalReturnPreference":true,"resourceBody":{"id":"new","pk":"p","x":1}},
			{"operationType":"Delete","partitionKey":"[\"SAME\"]","id":"new"}]`))
		if d := cmp.Diff([]int{201, 201, 409, 200, 200, 412, 404, 400, 400, 400, 400, 400, 200, 204},
			bulkStatuses(results)); d != "" || res.StatusCode != http.StatusMultiStatus {
			t.Fatal(res.Status, d)
		}
		if results[7].SubStatus != apierror.SubPartitionKeyMismatch {
			t.Error(results[7])
		}
		if !strings.Contains(string(results[3].Body), `"id":"new"`) || results[12].Body != nil {
			t.Errorf("bodies: %s, %s", results[3].Body, results[12].Body)
		}
		sum := 0.0
		for _, r := range results {
			sum += r.Charge
		}
		var charge float64
		fmt.Sscan(res.Header.Get("X-Ms-Request-Charge"), &charge)
		if d := sum - charge; d > 0.1 || d < -0.1 {
			t.Errorf("charge %v, operations %v", charge, sum)
		}
		if got, want := res.Header.Get("X-Ms-Session-Token"), at("p")+":-1#6"; got != want {
			t.Errorf("session token %s, want %s, after six transactions", got, want)
		}
		if got := queryAll(t, c, "SELECT VALUE c.n FROM c WHERE c.id = 'there'", pk("p"), nil); len(got) != 1 ||
			got[0] != "2" {
			t.Errorf("n: got %v, want 2", got)
		}
	})
	t.Run("all succeed -> 200", func(t *testing.T) {
		res, results := bulk(t, e, at("p"), bulkCreates("p", "s1", "s2"), "Prefer", "return=minimal")
		if d := cmp.Diff([]int{201, 201}, bulkStatuses(results)); d != "" || res.StatusCode != 200 ||
			results[0].Body != nil {
			t.Error(res.Status, d, string(results[0].Body))
		}
	})
	t.Run("without continue-on-error -> 424 after a failure", func(t *testing.T) {
		res, results := bulk(t, e, at("p"), bulkCreates("p", "f1", "there", "f2"),
			"x-ms-cosmos-batch-continue-on-error", "false")
		if d := cmp.Diff([]int{201, 409, 424}, bulkStatuses(results)); d != "" ||
			res.StatusCode != http.StatusMultiStatus {
			t.Error(res.Status, d)
		}
		if got := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.id IN ('f1', 'f2')", pk("p"), nil); len(got) != 1 ||
			got[0] != `"f1"` {
			t.Errorf("written: got %v, want f1", got)
		}
	})
	t.Run("key of another physical partition -> 410, nothing is written", func(t *testing.T) {
		body := strings.TrimSuffix(bulkCreates("p", "g1"), "]") + "," +
			strings.TrimPrefix(bulkCreates(other, "g2"), "[")
		for _, id := range []string{at("p"), at(other), "77"} {
			if res, _ := bulk(t, e, id, body); res.StatusCode != http.StatusGone ||
				res.Header.Get("X-Ms-Substatus") != "1002" {
				t.Errorf("range %s: %s %s", id, res.Status, res.Header.Get("X-Ms-Substatus"))
			}
		}
		if _, err := c.ReadItem(ctx, pk("p"), "g1", nil); statusOf(err) != 404 {
			t.Error(err)
		}
	})
	t.Run("limits", func(t *testing.T) {
		ids := make([]string, 101)
		for i := range ids {
			ids[i] = fmt.Sprintf("l%d", i)
		}
		if res, _ := bulk(t, e, at("p"), bulkCreates("p", ids...)); res.StatusCode != 400 {
			t.Errorf("101 operations: got %s, want 400", res.Status)
		}
		if res, results := bulk(t, e, at("p"), bulkCreates("p", ids[:100]...)); res.StatusCode != 200 ||
			len(results) != 100 {
			t.Errorf("100 operations: got %s with %d results, want 200", res.Status, len(results))
		}
		if res, _ := bulk(t, e, at("p"), bulkCreates("p", strings.Repeat("x", 2<<20))); res.StatusCode != 413 {
			t.Errorf("more than 2 MB: got %s, want 413", res.Status)
		}
	})
	t.Run("response full -> 413/3402", func(t *testing.T) {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"big","pk":"p","x":%q}`, strings.Repeat("x", 3<<19)))
		read := `{"operationType":"Read","partitionKey":"[\"p\"]","id":"big"}`
		_, results := bulk(t, e, at("p"), "["+read+","+read+","+read+"]")
		if d := cmp.Diff([]int{200, 200, 413}, bulkStatuses(results)); d != "" || results[2].SubStatus != 3402 {
			t.Error(d, results[2].SubStatus)
		}
		patch := `{"operationType":"Patch","partitionKey":"[\"p\"]","id":"big","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}}`
		_, results = bulk(t, e, at("p"), "["+patch+","+patch+","+patch+"]")
		if d := cmp.Diff([]int{200, 200, 413}, bulkStatuses(results)); d != "" {
			t.Error(d)
		}
		_, results = bulk(t, e, at("p"), "["+patch+","+patch+","+patch+"]", "Prefer", "return=minimal")
		if d := cmp.Diff([]int{200, 200, 200}, bulkStatuses(results)); d != "" {
			t.Error(d)
		}
		if got := queryAll(t, c, "SELECT VALUE c.n FROM c WHERE c.id = 'big'", pk("p"), nil); len(got) != 1 ||
			got[0] != "5" {
			t.Errorf("got %v, want 5: an operation with 413 must not be applied", got)
		}
		_, results = bulk(t, e, at("p"), "["+patch+","+read+","+read+"]", "x-ms-cosmos-batch-atomic", "true",
			"x-ms-cosmos-batch-continue-on-error", "false",
			"x-ms-documentdb-partitionkey", `["p"]`)
		if d := cmp.Diff([]int{424, 424, 413}, bulkStatuses(results)); d != "" {
			t.Error(d)
		}
	})
	t.Run("contradicting headers -> 400", func(t *testing.T) {
		if res, _ := bulk(t, e, at("p"), bulkCreates("p", "x"), "x-ms-cosmos-batch-atomic",
			"true"); res.StatusCode != 400 {
			t.Errorf("got %s, want 400", res.Status)
		}
	})
	t.Run("HybridRow -> 400 that names it", func(t *testing.T) {
		res := do(t, e, "POST", "/dbs/db/colls/c/docs", "\x81\xff\xff\xff\x7f", "x-ms-cosmos-is-batch-request", "true",
			"x-ms-documentdb-partitionkey", `["p"]`)
		if b, err := io.ReadAll(res.Body); res.StatusCode != 400 || !strings.Contains(string(b), "HybridRow") {
			t.Errorf("%s %s %v", res.Status, b, err)
		}
	})
}

// TestBulk_HierarchicalKeys: an operation with a missing or partial key fails alone.
func TestBulk_HierarchicalKeys(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e,
		azcosmos.ContainerProperties{
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/a", "/b"}, Version: 2}})
	_, results := bulk(t, e, "0", `[
		{"operationType":"Create","partitionKey":"[\"1\",\"2\"]","resourceBody":{"id":"x","a":"1","b":"2"}},
		{"operationType":"Create","resourceBody":{"id":"x","a":"1","b":"3"}},
		{"operationType":"Create","partitionKey":"[\"1\"]","resourceBody":{"id":"x","a":"1","b":"3"}},
		{"operationType":"Create","partitionKey":"[\"1\",{}]","resourceBody":{"id":"x","a":"1"}}]`)
	if d := cmp.Diff([]int{201, 400, 400, 201}, bulkStatuses(results)); d != "" {
		t.Error(d)
	}
}

// TestBulk_LargeItems: the memory of writes that are not durable yet is bounded.
func TestBulk_LargeItems(t *testing.T) {
	heavy(t)
	t.Parallel()
	const size = 1 << 20
	var p *partition // nil before the container is created
	var most uint64  // largest number of writes that were not durable yet
	e := newEngine(t, Options{Clock: func() time.Time {
		if p != nil {
			most = max(most, p.applied.Load()-p.synced.Load())
		}
		return time.Now()
	}})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p","n":0,"x":"`+strings.Repeat("x", size)+`"}`)
	p = e.catalog.Load().databases["db"].containers["c"].ranges[0]
	const op = `{"operationType":"Patch","partitionKey":"[\"p\"]","id":"1","minimalReturnPreference":true,"resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}}`
	res, _ := bulk(t, e, "0", "["+strings.Repeat(op+",", 49)+op+"]")
	if got := queryAll(t, c, "SELECT VALUE c.n FROM c", pk("p"), nil); res.StatusCode != 200 || len(got) != 1 ||
		got[0] != "50" {
		t.Errorf("%s %q", res.Status, got)
	}
	if most > maxBatchWritten/size+1 {
		t.Errorf("%d writes of 1 MB were pending, want at most %d", most, maxBatchWritten/size+1)
	}
}

// TestBulk_DuringSplits: operations that clients retry after a 410 are applied once.
func TestBulk_DuringSplits(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	keys := []string{"a", "b", "c", "d", "e"}
	const rounds = 20
	var wg sync.WaitGroup
	for _, key := range keys {
		mustCreate(t, c, key, `{"id":"count","pk":"`+key+`","n":0}`)
		wg.Go(func() {
			op := fmt.Sprintf(
				`{"operationType":"Patch","partitionKey":"[\"%s\"]","id":"count","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}}`, key)
			for done := 0; done < rounds; {
				ranges, _ := rangesOf(t, e)
				for _, r := range ranges {
					res, results := bulk(t, e, r.ID, "["+strings.Repeat(op+",", 9)+op+"]")
					if res.StatusCode == http.StatusGone {
						continue
					}
					for _, one := range results {
						if one.Status != 200 {
							t.Errorf("%s: %d", key, one.Status)
						}
					}
					done++
					break
				}
			}
		})
	}
	for _, id := range []string{"0", "1", "2", "3"} {
		if err := e.Split("db", "c", id); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for _, key := range keys {
		if got := queryAll(t, c, "SELECT VALUE c.n FROM c", pk(key), nil); len(got) != 1 ||
			got[0] != fmt.Sprint(10*rounds) {
			t.Errorf("%s: %v, want %d", key, got, 10*rounds)
		}
	}
}

// TestCompact: all data is in one level afterwards, and unchanged.
func TestCompact(t *testing.T) {
	heavy(t)
	t.Parallel()
	e := newEngine(t, scaleOptions())
	scaleContainer(t, e)
	if err := bulkLoad(e, 0, 20_000); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Compact(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: got %v, want %v", err, context.Canceled)
	}
	if err := e.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	levels := e.db.Metrics().Levels
	for i, l := range levels {
		if last := i == len(levels)-1; (l.TablesCount > 0) != last {
			t.Errorf("%d tables on level %d", l.TablesCount, i)
		}
	}
	audit(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Compact(t.Context()); err == nil {
		t.Error("Compact of a closed engine succeeded")
	}
}
