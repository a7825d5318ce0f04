package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/store/emulator/internal/query"
)

// TestQuery_TooMuchWork: the response is a 400 that names the construct.
func TestQuery_TooMuchWork(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", fmt.Sprintf(`{"id":"1","pk":"p","s":%q}`, strings.Repeat("a", 30_000)))
	for _, text := range []string{
		"SELECT VALUE REPLACE(c.s, 'a', c.s) FROM c",
		"SELECT * FROM c WHERE REPLACE(c.s, 'a', c.s) != ''",
		"SELECT DISTINCT VALUE REPLACE(c.s, 'a', c.s) FROM c",
		"SELECT MAX(REPLACE(c.s, 'a', c.s)) AS m FROM c",
		"SELECT COUNT(1) AS n, REPLACE(c.s, 'a', c.s) AS s FROM c GROUP BY REPLACE(c.s, 'a', c.s)",
		"SELECT VALUE REPLACE(c.s, 'a', c.s) FROM c ORDER BY c.s",
	} {
		_, err := c.NewQueryItemsPager(text, pk("p"), nil).NextPage(ctx)
		if wantStatus(t, err, http.StatusBadRequest, ""); !strings.Contains(err.Error(), "SC1001") ||
			!strings.Contains(err.Error(), "REPLACE is larger than 2097152 bytes") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var p azcosmos.PatchOperations
	p.AppendSet("/x", 1)
	p.SetCondition("from c where REPLACE(c.s, 'a', c.s) != ''")
	_, err := c.PatchItem(ctx, pk("p"), "1", p, nil)
	wantStatus(t, err, http.StatusBadRequest, "")
}

// TestIntervals compares intervals of values with a filter in Go, over several physical partitions
// that split meanwhile: with the range index, with a scan of a logical partition, and without an
// index.
func TestIntervals(t *testing.T) {
	heavy(t)
	t.Parallel()
	e := newEngine(t, Options{Partitions: 2})
	indexed := newContainer(t, e, azcosmos.ContainerProperties{ID: "indexed"})
	bare := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "bare",
			IndexingPolicy: &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}})
	long := strings.Repeat("x", 300)
	values := []any{nil, true, false, -1.5, 0.0, 1.0, 2.0, 1e300, "", "a", "ab", "b", long[:255], long[:257], long,
		long + "1", long + "2", "y", []any{1.0}, map[string]any{"v": 1.0}}
	for i := range 120 {
		doc := map[string]any{"id": fmt.Sprintf("%03d", i), "pk": fmt.Sprint(i % 5)}
		if v := i % (len(values) + 1); v < len(values) {
			doc["v"] = values[v]
		}
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*azcosmos.ContainerClient{indexed, bare} {
			if _, err := c.CreateItem(context.Background(), pk(fmt.Sprint(i%5)), b, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wheres []string
	for _, op := range []string{"<", "<=", ">", ">="} {
		for n := range values {
			wheres = append(wheres, fmt.Sprintf("c.v %s @%d", op, n))
		}
	}
	for range 60 {
		wheres = append(wheres, fmt.Sprintf("c.v BETWEEN @%d AND @%d", rand.IntN(len(values)), rand.IntN(len(values))))
	}
	wheres = append(wheres, "STARTSWITH(c.v, 'a')", "STARTSWITH(c.v, @14)", "c.v LIKE 'a%'", "c.v > @3 AND c.v < @3",
		"c.v > 0 AND c.pk > '2'")
	var params []azcosmos.QueryParameter
	for n, v := range values {
		params = append(params, azcosmos.QueryParameter{Name: fmt.Sprintf("@%d", n), Value: v})
	}
	sorted := func(rows []string) []string {
		slices.Sort(rows)
		return rows
	}
	for round := range 2 {
		for n, where := range wheres {
			text := "SELECT VALUE c.id FROM c WHERE " + where
			for _, key := range []azcosmos.PartitionKey{azcosmos.NewPartitionKey(), pk("3")} {
				want := sorted(queryAll(t, bare, text, key, &azcosmos.QueryOptions{QueryParameters: params}))
				o := &azcosmos.QueryOptions{QueryParameters: params, PageSizeHint: 7}
				if d := cmp.Diff(want, sorted(queryAll(t, indexed, text, key, o)), equateEmpty); d != "" {
					t.Errorf("%s: %s", where, d)
				}
			}
			if round == 0 && n%40 == 0 { // a query continues over a split
				pager := indexed.NewQueryItemsPager(text, azcosmos.NewPartitionKey(),
					&azcosmos.QueryOptions{QueryParameters: params, PageSizeHint: 3})
				var rows []string
				for first := true; pager.More(); first = false {
					page, err := pager.NextPage(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					for _, row := range page.Items {
						rows = append(rows, string(row))
					}
					if first {
						if err := e.Split("db", "indexed", rangesIn(e, "indexed")[0]); err != nil {
							t.Fatal(err)
						}
					}
				}
				want := sorted(queryAll(t, bare, text, azcosmos.NewPartitionKey(),
					&azcosmos.QueryOptions{QueryParameters: params}))
				if d := cmp.Diff(want, sorted(rows), equateEmpty); d != "" {
					t.Errorf("%s over a split: %s", where, d)
				}
			}
		}
	}
	t.Run("each physical partition returns its own items", func(t *testing.T) {
		const text, middle = `SELECT VALUE c.id FROM c WHERE c.v > 0`, "20000000000000000000000000000000"
		ranges := rangesIn(e, "indexed")
		total, halves := 0, 0
		for _, id := range ranges {
			read := func(headers ...string) (n int) {
				p := queryRange(t, e, "indexed", id, "", text, headers...)
				for n = len(p.Documents); p.token != ""; n += len(p.Documents) {
					p = queryRange(t, e, "indexed", id, p.token, text, headers...)
				}
				return n
			}
			total += read()
			halves += read("X-Ms-End-Epk", middle) + read("X-Ms-Start-Epk", middle)
		}
		if halves != total {
			t.Errorf("%d items in the halves of the key space, %d in all of it", halves, total)
		}
		if want := len(queryAll(t, bare, "SELECT VALUE c.id FROM c WHERE c.v > 0", azcosmos.NewPartitionKey(),
			nil)); total != want || len(ranges) < 3 {
			t.Errorf("%d items in %d partitions, want %d", total, len(ranges), want)
		}
	})
}

var equateEmpty = cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })

// rangesIn returns the ids of a container's physical partitions.
func rangesIn(e *Engine, container string) (ids []string) {
	c := e.catalog.Load().databases["db"].containers[container]
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.ranges {
		ids = append(ids, p.ID())
	}
	return ids
}

type rangePage struct {
	Documents []json.RawMessage
	status    int
	token     string
	entries   int
}

// queryRange reads a page from one physical partition, like a client that merges partitions.
func queryRange(t testing.TB, e *Engine, container, rangeID, token, text string, headers ...string) (p rangePage) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Documentdb-Query": {"true"},
		"X-Ms-Documentdb-Populatequerymetrics": {"true"},
		"X-Ms-Documentdb-Partitionkeyrangeid":  {rangeID}, "X-Ms-Max-Item-Count": {"10"}}
	if token != "" {
		h.Set("X-Ms-Continuation", token)
	}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	res, err := e.Do(signed(t, "POST", "/dbs/db/colls/"+container+"/docs", h, body))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	p.status, p.token, p.entries = res.StatusCode, res.Header.Get("X-Ms-Continuation"),
		entriesOf(res.Header.Get("X-Ms-Documentdb-Query-Metrics"))
	if p.status == http.StatusOK {
		mustUnmarshal(t, out, &p)
	}
	return p
}

func entriesOf(metrics string) (n int) {
	for _, m := range strings.Split(metrics, ";") {
		fmt.Sscanf(m, "retrievedDocumentCount=%d", &n)
	}
	return n
}

// TestIntervalPlans checks, by the number of entries read, whether the range index or a scan is used. A
// query keeps the plan of its first page.
func TestIntervalPlans(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	fillBlog(t, c, "large", 300)
	fillBlog(t, c, "small", 10)
	for _, test := range []struct {
		name, where string
		key         azcosmos.PartitionKey
		rows        int
		entries     int
	}{
		{"over partitions", "c.creationDate >= '2024-01-01T00:02:29.000Z'", azcosmos.NewPartitionKey(), 2, 2},
		{"over partitions, no rows", "c.rank > 100", azcosmos.NewPartitionKey(), 0, 0},
		{"a short interval in a large logical partition", "c.creationDate >= '2024-01-01T00:02:29.000Z'", pk("large"),
			2, 2},
		{"a small logical partition", "c.rank >= 0", pk("small"), 10, 10},
		{"most of a logical partition", "c.rank >= 0", pk("large"), 300, 300},
		{"an empty interval", "c.rank > 2 AND c.rank < 2", pk("large"), 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			page, err := c.NewQueryItemsPager("SELECT * FROM c WHERE "+test.where, test.key,
				nil).NextPage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if n := entriesOf(*page.QueryMetrics); len(page.Items) != test.rows || n != test.entries {
				t.Errorf("%d rows of %d entries, want %d of %d", len(page.Items), n, test.rows, test.entries)
			}
		})
	}
	t.Run("a query keeps its plan", func(t *testing.T) {
		const text = "SELECT VALUE c.id FROM c WHERE c.rank >= 4"
		begun := queryRange(t, e, "c", "0", "", text)
		if begun.entries != 10 || begun.token == "" {
			t.Fatalf("first page: got %+v, want 10 entries and a continuation", begun)
		}
		if err := e.Split("db", "c", "0"); err != nil {
			t.Fatal(err)
		}
		if p := queryRange(t, e, "c", "0", begun.token, text); p.status != http.StatusGone {
			t.Errorf("the parent: got status %d, want 410", p.status)
		}
		rows := len(begun.Documents)
		for _, id := range []string{"1", "2"} {
			for token := begun.token; token != ""; {
				p := queryRange(t, e, "c", id, token, text)
				if p.status != http.StatusOK {
					t.Fatalf("partition %s: %d", id, p.status)
				}
				rows, token = rows+len(p.Documents), p.token
			}
		}
		if rows != 62 {
			t.Errorf("%d rows, want 62", rows)
		}
	})
}

// TestContinuation_Reindexed: a position in an index that was replaced is refused.
func TestContinuation_Reindexed(t *testing.T) {
	ctx := context.Background()
	asc := azcosmos.CompositeIndexAscending
	columns := func(paths ...string) (index []azcosmos.CompositeIndex) {
		for _, p := range paths {
			index = append(index, azcosmos.CompositeIndex{Path: p, Order: asc})
		}
		return index
	}
	policy := func(included string, composites ...[]azcosmos.CompositeIndex) *azcosmos.IndexingPolicy {
		return &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			CompositeIndexes: composites,
			IncludedPaths:    []azcosmos.IncludedPath{{Path: included}},
			ExcludedPaths:    []azcosmos.ExcludedPath{{Path: "/*"}}}
	}
	byDate := columns("/type", "/creationDate", "/id")
	for _, test := range []struct {
		name, text    string
		key           azcosmos.PartitionKey
		before, after *azcosmos.IndexingPolicy
	}{
		{"same index, another number",
			"SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.type, c.creationDate, c.id", pk("p"),
			policy("/x/?", byDate, columns("/name", "/id")), policy("/x/?", columns("/name", "/id"), byDate)},
		{"another index, same number", "SELECT * FROM c WHERE c.type = 'comment'", pk("p"),
			policy("/x/?", byDate), policy("/x/?", columns("/type", "/name"))},
		{"equality on another path", "SELECT * FROM c WHERE c.type = 'comment' AND c.rank = 1",
			azcosmos.NewPartitionKey(),
			policy("/type/?"), policy("/rank/?")},
		{"an interval on another path", "SELECT * FROM c WHERE c.type > '' AND c.rank > 0", azcosmos.NewPartitionKey(),
			policy("/type/?"), policy("/rank/?")},
		{"removed index", "SELECT * FROM c WHERE c.rank > 0", azcosmos.NewPartitionKey(),
			policy("/rank/?"), policy("/type/?")},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: test.before})
			fillBlog(t, c, "p", 60)
			page, err := c.NewQueryItemsPager(test.text, test.key,
				&azcosmos.QueryOptions{PageSizeHint: 5}).NextPage(ctx)
			if err != nil || page.ContinuationToken == nil {
				t.Fatal(page.ContinuationToken, err)
			}
			if _, err := c.Replace(ctx,
				azcosmos.ContainerProperties{ID: "c",
					PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
					IndexingPolicy:         test.after}, nil); err != nil {
				t.Fatal(err)
			}
			_, err = c.NewQueryItemsPager(test.text, test.key,
				&azcosmos.QueryOptions{PageSizeHint: 5, ContinuationToken: page.ContinuationToken}).NextPage(ctx)
			if wantStatus(t, err, http.StatusBadRequest, ""); !strings.Contains(err.Error(),
				"Invalid Continuation Token") {
				t.Error(err)
			}
			if rows := queryAll(t, c, test.text, test.key, nil); len(rows) == 0 {
				t.Error("no rows from the beginning")
			}
		})
	}
}

// TestSort_LargeValues sorts by more bytes than the limit: pages are shorter, even among rows that
// OFFSET skips, but no row is lost.
func TestSort_LargeValues(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	const n = 24 // of 1.5 MB: 11 fit
	var want []string
	for i := range n {
		id := fmt.Sprintf("%02d", i*7%n)
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":%q,"pk":"p","s":"%s%s"}`, id, id, strings.Repeat("x", 1_500_000)))
		want = append(want, fmt.Sprintf(`"%02d"`, i))
	}
	rows, pages := queryPages(t, c, "SELECT VALUE c.id FROM c ORDER BY c.s OFFSET 13 LIMIT 10", pk("p"), nil)
	if d := cmp.Diff(want[13:23], rows); d != "" || pages != 3 {
		t.Errorf("%d pages, want 3; %s", pages, d)
	}
}

// heldContext is the context of a request whose tenth call of Err blocks until resume is closed.
type heldContext struct {
	context.Context
	calls    atomic.Int64 // of Err
	canceled atomic.Bool
	held     chan struct{} // closed when the tenth call blocks
	resume   chan struct{}
}

func (c *heldContext) Err() error {
	if c.calls.Add(1) == 10 {
		close(c.held)
		<-c.resume
	}
	if c.canceled.Load() {
		return context.Canceled
	}
	return nil
}

type heldResult struct {
	rows    int
	session string
	err     error
}

// heldQuery starts a query that sorts 1000 items in memory, and returns while it is held.
func heldQuery(t *testing.T) (*Engine, *azcosmos.ContainerClient, *heldContext, chan heldResult) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	fillBlog(t, c, "p", 1000)
	ctx := &heldContext{Context: context.Background(), held: make(chan struct{}), resume: make(chan struct{})}
	done := make(chan heldResult, 1)
	h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Documentdb-Query": {"true"},
		"X-Ms-Documentdb-Partitionkey": {`["p"]`}}
	req := signed(t, "POST", "/dbs/db/colls/c/docs", h,
		[]byte(`{"query":"SELECT VALUE c.id FROM c ORDER BY c.name"}`)).WithContext(ctx)
	go func() {
		var a heldResult
		res, err := e.Do(req)
		if a.err = err; err == nil {
			var page struct{ Documents []string }
			a.err = json.NewDecoder(res.Body).Decode(&page)
			a.rows, a.session = len(page.Documents), res.Header.Get("X-Ms-Session-Token")
		}
		done <- a
	}()
	select {
	case <-ctx.held:
	case <-time.After(time.Minute):
		t.Fatal("the query does not check its context")
	}
	return e, c, ctx, done
}

// TestQuery_DoesNotBlockChanges: a container is split, replaced and dropped during a query, which
// sees the state at its start.
func TestQuery_DoesNotBlockChanges(t *testing.T) {
	e, c, held, done := heldQuery(t)
	changed := make(chan error, 1)
	go func() {
		ctx := context.Background()
		_, replaced := c.Replace(ctx,
			azcosmos.ContainerProperties{ID: "c",
				PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
				IndexingPolicy:         blogPolicy()}, nil)
		split := e.Split("db", "c", "0")
		_, dropped := c.Delete(ctx, nil)
		changed <- errors.Join(replaced, split, dropped)
	}()
	select {
	case err := <-changed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a query keeps the container locked")
	}
	close(held.resume)
	if a := <-done; a.err != nil || a.rows != 1000 {
		t.Errorf("%d rows, %v", a.rows, a.err)
	}
}

// TestQuery_CanceledDuringScan: a canceled query stops its scan.
func TestQuery_CanceledDuringScan(t *testing.T) {
	_, _, held, done := heldQuery(t)
	held.canceled.Store(true)
	close(held.resume)
	if a := <-done; a.rows > 0 {
		t.Errorf("%d rows, %v", a.rows, a.err)
	}
	if n := held.calls.Load(); n > 15 {
		t.Errorf("the context was checked %d times, want at most 15", n)
	}
}

// countdownContext is a context that ends after a number of calls to Err.
type countdownContext struct {
	context.Context
	left atomic.Int64
}

func (c *countdownContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestQuery_CanceledDuringAggregation: a canceled query stops building rows, each of which can be as
// large as an item.
func TestQuery_CanceledDuringAggregation(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	fillBlog(t, c, "p", 200)
	for _, text := range []string{
		"SELECT UPPER(c.id) AS id FROM c ORDER BY c.creationDate",
		"SELECT UPPER(c.id) AS id, COUNT(1) AS n FROM c GROUP BY c.id",
		"SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.id",
	} {
		ctx := &countdownContext{Context: context.Background()}
		ctx.left.Store(150) // the scan of 200 items takes 12 calls
		res, err := e.Do(signed(t, "POST", "/dbs/db/colls/c/docs",
			http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Documentdb-Isquery": {"true"}},
			fmt.Appendf(nil, `{"query":%q}`, text)).WithContext(ctx))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: response: %t, error: %v, want %v", text, res != nil, err, context.Canceled)
		}
	}
}

// TestBatch_Canceled: a canceled transactional batch writes nothing, a canceled bulk batch skips its
// remaining operations.
func TestBatch_Canceled(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for atomic, want := range map[string]int{"true": 0, "false": 50} {
		var ops []string
		for i := range 100 {
			ops = append(ops,
				fmt.Sprintf(
					`{"operationType":"Create","partitionKey":"[\"%[1]s\"]","resourceBody":{"id":"%[2]d","pk":"%[1]s"}}`, atomic, i))
		}
		ctx := &countdownContext{Context: context.Background()}
		ctx.left.Store(50)
		res, err := e.Do(signed(t, "POST", "/dbs/db/colls/c/docs",
			http.Header{"X-Ms-Documentdb-Partitionkey": {`["` + atomic + `"]`},
				"X-Ms-Cosmos-Is-Batch-Request": {"true"}, "X-Ms-Cosmos-Batch-Atomic": {atomic}},
			[]byte("["+strings.Join(ops, ",")+"]")).WithContext(ctx))
		if gone := want == 0; gone != errors.Is(err, context.Canceled) ||
			!gone && res.StatusCode != http.StatusMultiStatus {
			t.Errorf("atomic: %s: response: %t, error: %v", atomic, res != nil, err)
		}
		if n := len(queryAll(t, c, "SELECT * FROM c", pk(atomic), nil)); n > want || n == 0 && want > 0 {
			t.Errorf("atomic: %s: %d items, want at most %d", atomic, n, want)
		}
	}
}

// TestChangeFeed_LogicalPartitionIsBounded: a page of a logical partition reads a bounded number of changes of the
// physical partition. A reader continues over empty pages.
func TestChangeFeed_LogicalPartitionIsBounded(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e,
		azcosmos.ContainerProperties{IndexingPolicy: &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}})
	mustCreate(t, c, "rare", `{"id":"first","pk":"rare"}`)
	if err := bulkLoad(e, 0, query.MaxPageScan+500); err != nil { // under the key p
		t.Fatal(err)
	}
	mustCreate(t, c, "rare", `{"id":"last","pk":"rare"}`)
	key := pk("rare")
	o := &azcosmos.ChangeFeedOptions{PartitionKey: &key, FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"},
		MaxItemCount: 1}
	var got []string
	empty := 0
	for {
		res, err := c.ReadChangeFeed(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if res.RawResponse.StatusCode == http.StatusNotModified {
			break
		}
		for _, item := range res.Items {
			var doc struct{ ID string }
			mustUnmarshal(t, item, &doc)
			got = append(got, doc.ID)
		}
		if len(res.Items) == 0 {
			empty++
		}
		if o.Continuation = &res.ContinuationToken; empty > 10 {
			t.Fatal("more than 10 empty pages")
		}
	}
	if d := cmp.Diff([]string{"first", "last"}, got); d != "" || empty != 1 {
		t.Errorf("%d empty pages, want 1; %s", empty, d)
	}
}

// TestContinuation_LongValues: a continuation contains what distinguishes the rows at the end of the
// page. If it is too long for a header, the query is refused.
func TestContinuation_LongValues(t *testing.T) {
	ordered := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
		CompositeIndexes: [][]azcosmos.CompositeIndex{{{Path: "/s", Order: azcosmos.CompositeIndexAscending},
			{Path: "/n", Order: azcosmos.CompositeIndexDescending}}}}
	const rows = 6
	for name, tt := range map[string]struct {
		value  func(text string, i int) string
		status int
	}{
		"10,000 bytes -> all rows": {func(text string, i int) string { return text[:10_000] }, 200},
		"20,000 bytes, different start -> all rows": {func(text string, i int) string {
			return fmt.Sprintf("%02d", i*5%rows) + text
		}, 200},
		"20,000 bytes, different end -> refused": {func(text string, i int) string {
			return text + fmt.Sprintf("%02d", i*5%rows)
		}, 400},
		"20,000 equal bytes -> refused": {func(text string, i int) string { return text }, 400},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: ordered})
			text := string(noise(20_000))
			for i := range rows {
				mustCreate(t, c, "p",
					fmt.Sprintf(`{"id":"%02d","pk":"p","n":%d,"s":%q}`, i, i*5%rows, tt.value(text, i)))
			}
			for _, text := range []string{
				"SELECT VALUE c.id FROM c ORDER BY c.s",
				"SELECT VALUE c.id FROM c ORDER BY c.s DESC, c.n ASC",
				"SELECT DISTINCT VALUE c.id FROM c ORDER BY c.s",
			} {
				want := queryAll(t, c, text, pk("p"), nil)
				if len(want) != rows {
					t.Fatalf("%s: %d rows", text, len(want))
				}
				var got []string
				for pager := c.NewQueryItemsPager(text, pk("p"),
					&azcosmos.QueryOptions{PageSizeHint: 2}); pager.More(); {
					page, err := pager.NextPage(t.Context())
					if tt.status != 200 {
						wantStatus(t, err, tt.status, "")
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if token := page.ContinuationToken; token != nil && len(*token) > 24<<10 {
						t.Fatalf("%s: the continuation has %d bytes, want at most %d", text, len(*token), 24<<10)
					}
					for _, row := range page.Items {
						got = append(got, string(row))
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: %s", text, d)
				}
			}
		})
	}
}
