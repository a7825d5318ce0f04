package emulator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/store/emulator/internal/layout"
)

// queryAll drains a query.
func queryAll(
	t testing.TB, c *azcosmos.ContainerClient, text string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions,
) []string {
	t.Helper()
	rows, _ := queryPages(t, c, text, key, o)
	return rows
}

func queryPages(
	t testing.TB, c *azcosmos.ContainerClient, text string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions,
) (rows []string, pages int) {
	t.Helper()
	pager := c.NewQueryItemsPager(text, key, o)
	for pager.More() {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if page.QueryMetrics == nil || page.RequestCharge == 0 {
			t.Fatalf("%s: a page without metrics or charge", text)
		}
		for _, i := range page.Items {
			rows = append(rows, string(i))
		}
		if pages++; pages > 1000 {
			t.Fatalf("%s: more than 1000 pages", text)
		}
	}
	return rows, pages
}

func params(kv ...any) []azcosmos.QueryParameter {
	var p []azcosmos.QueryParameter
	for i := 0; i < len(kv); i += 2 {
		p = append(p, azcosmos.QueryParameter{Name: kv[i].(string), Value: kv[i+1]})
	}
	return p
}

// blogPolicy indexes two paths and two composites.
func blogPolicy() *azcosmos.IndexingPolicy {
	asc := azcosmos.CompositeIndexAscending
	return &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/userId/?"}, {Path: "/type/?"}},
		ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		CompositeIndexes: [][]azcosmos.CompositeIndex{
			{{Path: "/type", Order: asc}, {Path: "/creationDate", Order: asc}, {Path: "/id", Order: asc}},
			{{Path: "/rank", Order: asc}, {Path: "/name", Order: azcosmos.CompositeIndexDescending}},
		}}
}

const keyset = "SELECT * FROM c WHERE c.type = @t AND c.creationDate <= @d AND (c.creationDate < @d OR c.id < @id) " +
	"ORDER BY c.type DESC, c.creationDate DESC, c.id DESC"

func fillBlog(t testing.TB, c *azcosmos.ContainerClient, key string, n int) {
	t.Helper()
	for i := 0; i < n; i += 50 {
		b := c.NewTransactionalBatch(pk(key))
		for j := i; j < min(i+50, n); j++ {
			b.CreateItem(fmt.Appendf(nil,
				`{"id":"c%05d","pk":%q,"type":"comment","creationDate":"2024-01-01T%02d:%02d:%02d.000Z","userId":"u%d","rank":%d,"name":"n%d"}`,
				j, key, j/7200, j/120%60, j/2%60, j%3, j%5, j), nil) // two items share each date
		}
		if out, err := c.ExecuteTransactionalBatch(context.Background(), b, nil); err != nil || !out.Success {
			t.Fatal(err, statuses(out))
		}
	}
}

func TestKeysetPaging(t *testing.T) {
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 105)
	fillBlog(t, c, "other", 30)
	mustCreate(t, c, "p", `{"id":"post","pk":"p","type":"post","creationDate":"2024-01-01T00:00:20.000Z"}`)

	// A writer inserts newer items while a reader pages from new to old: it must see each item that existed
	// when it began, once, in order.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			doc := fmt.Appendf(nil,
				`{"id":"new%04d","pk":"p","type":"comment","creationDate":"2025-01-01T00:00:00.000Z"}`, i)
			if _, err := c.CreateItem(context.Background(), pk("p"), doc, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var got []string
	date, id := "2024-12-31", "z"
	for {
		page, err := c.NewQueryItemsPager(strings.Replace(keyset, "*", "c.id, c.creationDate", 1), pk("p"),
			&azcosmos.QueryOptions{PageSizeHint: 20,
				QueryParameters: params("@t", "comment", "@d", date, "@id", id)}).NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			var d struct{ ID, CreationDate string }
			mustUnmarshal(t, i, &d)
			got = append(got, d.ID)
			date, id = d.CreationDate, d.ID
		}
		if len(page.Items) < 20 {
			break
		}
	}
	close(stop)
	wg.Wait()
	var want []string
	for i := 104; i >= 0; i-- {
		want = append(want, fmt.Sprintf("c%05d", i))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPages_AnySize: the rows do not depend on the page size, which determines how many items are
// looked up at a time.
func TestPages_AnySize(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	const count = 300
	for i := range count { // the order of the ids is not that of the dates
		size := 10
		if i%50 == 0 {
			size = 100 << 10
		}
		mustCreate(t, c, "p",
			fmt.Sprintf(
				`{"id":"c%05d","pk":"p","type":"comment","creationDate":"2024-01-01T00:%02d:%02d.000Z","text":%q}`,
				i*7919%count, i/60, i%60, strings.Repeat("x", size)))
	}
	for _, text := range []string{strings.Replace(keyset, "*", "c.id", 1),
		strings.Replace(keyset, "*", "c.id, c.text", 1)} {
		for _, size := range []int32{1, 2, 100, 127, 128, 129, 130, 200, 256, 257, 300, 301} {
			var got, want []string
			pager := c.NewQueryItemsPager(text, pk("p"), &azcosmos.QueryOptions{PageSizeHint: size,
				QueryParameters: params("@t", "comment", "@d", "2024-12-31", "@id", "z")})
			for pager.More() {
				page, err := pager.NextPage(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Items) > int(size) {
					t.Errorf("%d items on a page of %d", len(page.Items), size)
				}
				for _, i := range page.Items {
					var d struct{ ID string }
					mustUnmarshal(t, i, &d)
					got = append(got, d.ID)
				}
			}
			for i := count - 1; i >= 0; i-- {
				want = append(want, fmt.Sprintf("c%05d", i*7919%count))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("pages of %d: %s", size, d)
			}
		}
	}
}

// TestLookAhead_MemoryIsBounded: lookups take bounded memory, however long the keys of the index.
func TestLookAhead_MemoryIsBounded(t *testing.T) {
	heavy(t)
	e := newEngine(t, Options{})
	c := newContainer(t, e,
		azcosmos.ContainerProperties{IndexingPolicy: &azcosmos.IndexingPolicy{Automatic: true,
			IndexingMode:  azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			CompositeIndexes: [][]azcosmos.CompositeIndex{{{Path: "/name", Order: azcosmos.CompositeIndexAscending},
				{Path: "/id", Order: azcosmos.CompositeIndexAscending}}}}})
	for i := range 20 {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p","name":%q}`, i, strings.Repeat("x", 512<<10)))
	}
	read := func() (items int) {
		for pager := c.NewQueryItemsPager("SELECT c.id FROM c ORDER BY c.name, c.id", pk("p"), nil); pager.More(); {
			page, err := pager.NextPage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			items += len(page.Items)
		}
		return items
	}
	items, took := read(), uint64(math.MaxUint64)
	for range 5 { // the minimum excludes flushes and emptied pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		items = read()
		runtime.ReadMemStats(&after)
		took = min(took, (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if t.Logf("%d MB", took); took > 24 { // together they would take 60 and more
		t.Errorf("allocated %d MB for 20 keys of 512 KB, want at most 24", took)
	}
	if items != 20 {
		t.Errorf("%d items", items)
	}
}

func TestQueries(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 30)
	fillBlog(t, c, "q", 30)
	one, cross := pk("p"), azcosmos.NewPartitionKey()
	for _, test := range []struct {
		name, text string
		key        azcosmos.PartitionKey
		params     []azcosmos.QueryParameter
		size       int32
		want       string // rows, joined
		pages      int    // 0: not checked
	}{
		{"filter by an indexed path", "SELECT VALUE c.id FROM c WHERE c.userId = 'u1' AND c.rank = 1", one, nil, 0,
			`"c00016" "c00001"`, 1},
		{"over partitions, equality on an indexed path",
			"SELECT VALUE c.pk FROM c WHERE c.userId = @u AND c.name = 'n7'", cross, params("@u", "u1"), 0, `"q" "p"`,
			0},
		{"over partitions, a scan in order of creation",
			"SELECT VALUE c.pk FROM c WHERE c.rank = 0 AND c.name != 'n0'", cross, nil, 0,
			strings.TrimSpace(strings.Repeat(`"p" `, 5) + strings.Repeat(`"q" `, 5)), 0},
		{"key pinned in WHERE",
			"SELECT VALUE c.id FROM c WHERE c.pk = 'q' AND c.type = 'comment' ORDER BY c.type, c.creationDate, c.id " +
				"OFFSET 1 LIMIT 2", cross, nil, 0, `"c00001" "c00002"`, 1},
		{"composite order, ascending and descending",
			"SELECT VALUE c.id FROM c WHERE c.rank = 4 ORDER BY c.rank, c.name DESC", one, nil, 0,
			`"c00009" "c00004" "c00029" "c00024" "c00019" "c00014"`, 1},
		{"composite order, all inverse", "SELECT VALUE c.id FROM c WHERE c.rank = 4 ORDER BY c.rank DESC, c.name ASC",
			one, nil, 0,
			`"c00014" "c00019" "c00024" "c00029" "c00004" "c00009"`, 1},
		{"composite order over several ranks pages",
			"SELECT VALUE c.id FROM c WHERE c.rank > 3 ORDER BY c.rank DESC, c.name ASC", one, nil, 4,
			`"c00014" "c00019" "c00024" "c00029" "c00004" "c00009"`, 2},
		{"range on the pinned index",
			"SELECT VALUE c.id FROM c WHERE c.type = 'comment' AND c.creationDate >= '2024-01-01T00:00:13.000Z' AND " +
				"c.creationDate < '2024-01-01T00:00:14.000Z'", one, nil, 0, `"c00026" "c00027"`, 1},
		{"sorted in memory", "SELECT VALUE c.id FROM c WHERE c.rank = 2 ORDER BY c.userId DESC", one, nil, 0,
			`"c00017" "c00002" "c00022" "c00007" "c00027" "c00012"`, 1},
		{"sorted in memory, pages end exactly", "SELECT VALUE c.id FROM c WHERE c.rank = 2 ORDER BY c.id DESC", one,
			nil, 3, `"c00027" "c00022" "c00017" "c00012" "c00007" "c00002"`, 2},
		{"sorted in memory, offset over pages",
			"SELECT VALUE c.id FROM c WHERE c.rank = 2 ORDER BY c.id OFFSET 1 LIMIT 4", one, nil, 3,
			`"c00007" "c00012" "c00017" "c00022"`, 2},
		{"top", "SELECT TOP 3 VALUE c.id FROM c ORDER BY c.id", one, nil, 2, `"c00000" "c00001" "c00002"`, 2},
		{"top of an index",
			"SELECT TOP 3 VALUE c.id FROM c WHERE c.type = 'comment' ORDER BY c.type, c.creationDate, c.id", one, nil,
			2, `"c00000" "c00001" "c00002"`, 2},
		{"limit 0 after an offset", "SELECT VALUE c.id FROM c OFFSET 1 LIMIT 0", one, nil, 0, ``, 1},
		{"largest limit", "SELECT VALUE c.id FROM c WHERE c.rank = 2 ORDER BY c.id OFFSET 5 LIMIT 2147483647", one,
			nil, 0, `"c00027"`, 1},
		{"offset beyond the end", "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 500 LIMIT 5", one, nil, 0, ``, 1},
		{"count", "SELECT VALUE COUNT(1) FROM c WHERE c.rank = 1", one, nil, 0, `6`, 1},
		{"group by", "SELECT c.userId, COUNT(1) AS n FROM c GROUP BY c.userId", one, nil, 2,
			`{"userId":"u0","n":10} {"userId":"u1","n":10} {"userId":"u2","n":10}`, 2},
		{"distinct in order", "SELECT DISTINCT VALUE c.rank FROM c ORDER BY c.rank DESC", one, nil, 0, `4 3 2 1 0`, 1},
		{"points", "SELECT VALUE c.id FROM c WHERE c.id IN ('c00003', 'nothing', 'c00001')", one, nil, 0,
			`"c00003" "c00001"`, 1},
		{"points in order", "SELECT VALUE c.id FROM c WHERE c.id IN ('c00003', 'c00001') ORDER BY c.id", one, nil, 0,
			`"c00001" "c00003"`, 1},
		{"points over partitions",
			"SELECT VALUE c.pk FROM c WHERE (c.id = 'c00003' AND c.pk = 'p') OR (c.id = 'c00003' AND c.pk = 'q')",
			cross, nil, 0, `"p" "q"`, 1},
		{"no rows", "SELECT * FROM c WHERE c.type = 'comment' AND c.creationDate > '2030'", one, nil, 0, ``, 1},
		{"an empty partition", "SELECT * FROM c", pk("empty"), nil, 0, ``, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			rows, pages := queryPages(t, c, test.text, test.key,
				&azcosmos.QueryOptions{PageSizeHint: test.size, QueryParameters: test.params})
			if d := cmp.Diff(test.want, strings.Join(rows, " ")); d != "" {
				t.Error(d)
			}
			if test.pages != 0 && pages != test.pages {
				t.Errorf("%d pages, want %d", pages, test.pages)
			}
		})
	}
	t.Run("full last page of a scan -> empty page", func(t *testing.T) {
		if rows, pages := queryPages(t, c, "SELECT * FROM c", cross,
			&azcosmos.QueryOptions{PageSizeHint: 15}); len(rows) != 60 || pages != 5 {
			t.Errorf("%d rows, %d pages", len(rows), pages)
		}
	})
	for _, test := range []struct {
		name, text string
		key        azcosmos.PartitionKey
		status     int
		sub        string
	}{
		{"order by over partitions", "SELECT * FROM c ORDER BY c.id", cross, 400, "1004"},
		{"top over partitions", "SELECT TOP 1 * FROM c", cross, 400, "1004"},
		{"offset over partitions", "SELECT * FROM c OFFSET 0 LIMIT 1", cross, 400, "1004"},
		{"distinct over partitions", "SELECT DISTINCT c.id FROM c", cross, 400, "1004"},
		{"aggregate over partitions", "SELECT VALUE COUNT(1) FROM c", cross, 400, "1004"},
		{"group by over partitions", "SELECT c.type FROM c GROUP BY c.type", cross, 400, "1004"},
		{"no composite index", "SELECT * FROM c ORDER BY c.creationDate, c.id", one, 400, ""},
		{"composite index in mixed directions", "SELECT * FROM c ORDER BY c.rank, c.name", one, 400, ""},
		{"syntax", "SELECT * FROM c WHERE", one, 400, ""},
		{"unsupported", "SELECT * FROM c JOIN t IN c.tags", one, 400, ""},
		{"missing parameter", "SELECT * FROM c WHERE c.id = @id", one, 400, ""},
	} {
		t.Run(test.name+" -> refused", func(t *testing.T) {
			_, err := c.NewQueryItemsPager(test.text, test.key, nil).NextPage(context.Background())
			wantStatus(t, err, test.status, test.sub)
		})
	}
	t.Run("cross partition not enabled -> refused", func(t *testing.T) {
		no := false
		_, err := c.NewQueryItemsPager("SELECT * FROM c", cross,
			&azcosmos.QueryOptions{EnableCrossPartitionQuery: &no}).NextPage(context.Background())
		wantStatus(t, err, 400, "")
	})
	t.Run("index metrics", func(t *testing.T) {
		page, err := c.NewQueryItemsPager("SELECT * FROM c WHERE c.userId = 'u1'", one,
			&azcosmos.QueryOptions{PopulateIndexMetrics: true}).NextPage(context.Background())
		if err != nil || page.IndexMetrics == nil {
			t.Error(page.IndexMetrics, err)
		}
	})
}

// TestPlans checks, by the number of entries read, that queries use the indexes.
func TestPlans(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 200)
	for _, test := range []struct {
		name, text string
		size       int32
		cross      bool
		entries    int // at most
	}{
		{"keyset page",
			strings.NewReplacer("@t", "'comment'", "@d", "'2024-01-01T00:01:00.000Z'", "@id",
				"'c00120'").Replace(keyset), 20, false, 23},
		{"first page of an order",
			"SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.type DESC, c.creationDate DESC, c.id DESC", 20, false,
			21},
		{"one sort property after a pinned one", "SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.creationDate",
			20, false, 21},
		{"range index", "SELECT * FROM c WHERE c.userId = 'u1'", 0, true, 67},
		{"points", "SELECT * FROM c WHERE c.id IN ('c00001', 'c00002')", 0, false, 2},
		{"scan stops at the page's end", "SELECT * FROM c", 10, true, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := pk("p")
			if test.cross {
				key = azcosmos.NewPartitionKey()
			}
			page, err := c.NewQueryItemsPager(test.text, key,
				&azcosmos.QueryOptions{PageSizeHint: test.size}).NextPage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var entries int
			for _, m := range strings.Split(*page.QueryMetrics, ";") {
				fmt.Sscanf(m, "retrievedDocumentCount=%d", &entries)
			}
			if entries > test.entries || entries < len(page.Items) {
				t.Errorf("read %d entries for %d rows, want at most %d", entries, len(page.Items), test.entries)
			}
		})
	}
}

func TestReadMany(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	byID := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "byid",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}})
	byKey := newContainer(t, e, azcosmos.ContainerProperties{ID: "bykey"})
	odd := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "odd",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/a-b/c"}}})
	for i := range 30 {
		id := fmt.Sprintf("i%02d", i)
		mustCreate(t, byID, id, fmt.Sprintf(`{"id":%q}`, id))
		mustCreate(t, byKey, "one", fmt.Sprintf(`{"id":%q,"pk":"one"}`, id))
		mustCreate(t, byKey, id, fmt.Sprintf(`{"id":%q,"pk":%q}`, id, id))
		mustCreate(t, odd, id, fmt.Sprintf(`{"id":%q,"a-b":{"c":%q}}`, id, id))
	}
	if _, err := byKey.CreateItem(ctx, azcosmos.NullPartitionKey, []byte(`{"id":"null","pk":null}`), nil); err != nil {
		t.Fatal(err)
	}
	identity := func(key azcosmos.PartitionKey, id string) azcosmos.ItemIdentity {
		return azcosmos.ItemIdentity{PartitionKey: key, ID: id}
	}
	for _, test := range []struct {
		name string
		c    *azcosmos.ContainerClient
		ids  []azcosmos.ItemIdentity
		want []string
	}{
		{"id is the partition key", byID,
			[]azcosmos.ItemIdentity{identity(pk("i03"), "i03"), identity(pk("i01"), "i01"),
				identity(pk("gone"), "gone")}, []string{"i01", "i03"}},
		{"one logical partition", byKey,
			[]azcosmos.ItemIdentity{identity(pk("one"), "i03"), identity(pk("one"), "i02"),
				identity(pk("one"), "gone")}, []string{"i02", "i03"}},
		{"several partitions", byKey,
			[]azcosmos.ItemIdentity{identity(pk("one"), "i03"), identity(pk("i04"), "i04"),
				identity(pk("i05"), "i04")}, []string{"i03", "i04"}},
		{"a null key", byKey, []azcosmos.ItemIdentity{identity(azcosmos.NullPartitionKey, "null")}, []string{"null"}},
		{"a path that is not a name", odd,
			[]azcosmos.ItemIdentity{identity(pk("i01"), "i01"), identity(pk("i02"), "i02")}, []string{"i01", "i02"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			res, err := test.c.ReadManyItems(ctx, test.ids, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range res.Items {
				var d struct{ ID string }
				mustUnmarshal(t, i, &d)
				got = append(got, d.ID)
			}
			slices.Sort(got)
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestContinuationTokens(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	newContainer(t, e, azcosmos.ContainerProperties{ID: "other", IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 30)
	cross := azcosmos.NewPartitionKey()
	type query struct {
		text string
		key  azcosmos.PartitionKey
	}
	queries := []query{
		{"SELECT VALUE c.id FROM c", cross},
		{"SELECT VALUE c.id FROM c", pk("p")},
		{"SELECT VALUE c.id FROM c WHERE c.userId = 'u1'", cross},
		{"SELECT VALUE c.id FROM c WHERE c.type = 'comment' ORDER BY c.type DESC, c.creationDate DESC, c.id DESC",
			pk("p")},
		{"SELECT VALUE c.id FROM c ORDER BY c.userId", pk("p")},
		{"SELECT DISTINCT VALUE c.id FROM c", pk("p")},
	}
	var tokens []*string
	var whole, got [][]string
	for _, q := range queries {
		whole = append(whole, queryAll(t, c, q.text, q.key, nil))
		page, err := c.NewQueryItemsPager(q.text, q.key, &azcosmos.QueryOptions{PageSizeHint: 4}).NextPage(ctx)
		if err != nil || page.ContinuationToken == nil {
			t.Fatalf("%s: %v", q.text, err)
		}
		tokens = append(tokens, page.ContinuationToken)
		rows := []string{}
		for _, i := range page.Items {
			rows = append(rows, string(i))
		}
		got = append(got, rows)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	client := newClient(t, e)
	c, err = client.NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.NewContainer("db", "other")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T, c *azcosmos.ContainerClient, q query, o azcosmos.QueryOptions) {
		t.Helper()
		_, err := c.NewQueryItemsPager(q.text, q.key, &o).NextPage(ctx)
		wantStatus(t, err, 400, "")
		if !strings.Contains(err.Error(), "Invalid Continuation Token") {
			t.Error(err)
		}
	}
	for i, q := range queries {
		t.Run(q.text, func(t *testing.T) {
			rows := append(got[i],
				queryAll(t, c, q.text, q.key, &azcosmos.QueryOptions{ContinuationToken: tokens[i], PageSizeHint: 5})...)
			if d := cmp.Diff(whole[i], rows); d != "" {
				t.Error(d)
			}
			refused(t, other, q, azcosmos.QueryOptions{ContinuationToken: tokens[i]})
			refused(t, c, query{q.text, pk("other key")}, azcosmos.QueryOptions{ContinuationToken: tokens[i]})
			broken := (*tokens[i])[1:]
			refused(t, c, q, azcosmos.QueryOptions{ContinuationToken: &broken})
		})
	}
}

func TestReindex(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	fillBlog(t, c, "p", 60)
	const ordered = "SELECT VALUE c.id FROM c WHERE c.type = 'comment' ORDER BY c.type, c.creationDate, c.id"
	_, err := c.NewQueryItemsPager(ordered, pk("p"), nil).NextPage(ctx)
	wantStatus(t, err, 400, "")
	before := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.userId = 'u1'", azcosmos.NewPartitionKey(), nil)
	if _, err := c.Replace(ctx,
		azcosmos.ContainerProperties{ID: "c",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
			IndexingPolicy:         blogPolicy()}, nil); err != nil {
		t.Fatal(err)
	}
	if rows := queryAll(t, c, ordered, pk("p"), nil); len(rows) != 60 || !slices.IsSorted(rows) {
		t.Errorf("%q", rows)
	}
	if d := cmp.Diff(before,
		queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.userId = 'u1'", azcosmos.NewPartitionKey(), nil)); d != "" {
		t.Error(d)
	}
	if _, err := c.Replace(ctx,
		azcosmos.ContainerProperties{ID: "c",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
			IndexingPolicy:         &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}},
		nil); err != nil {
		t.Fatal(err)
	}
	if rows := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.userId = 'u1'", azcosmos.NewPartitionKey(),
		nil); len(rows) != 20 {
		t.Errorf("without an index: %q", rows)
	}
}

// TestLimits_CountRows: an item without a row does not count for TOP, OFFSET, LIMIT or the page
// size.
func TestLimits_CountRows(t *testing.T) {
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	for i, x := range []string{"", `,"x":1`, "", `,"x":3`, "", `,"x":5`} {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p"%s}`, i, x))
	}
	for text, want := range map[string][]string{
		"SELECT TOP 2 VALUE c.x FROM c":                          {"1", "3"},
		"SELECT VALUE c.x FROM c OFFSET 1 LIMIT 1":               {"3"},
		"SELECT TOP 2 VALUE c.x FROM c ORDER BY c.id":            {"1", "3"},
		"SELECT VALUE c.x FROM c ORDER BY c.id OFFSET 1 LIMIT 1": {"3"},
		"SELECT VALUE c.x FROM c ORDER BY c.id DESC":             {"5", "3", "1"},
		"SELECT DISTINCT TOP 2 VALUE c.x FROM c":                 {"1", "3"},
		"SELECT TOP 2 c.x FROM c":                                {"{}", `{"x":1}`},
	} {
		for _, size := range []int32{0, 1, 2} {
			if d := cmp.Diff(want, queryAll(t, c, text, pk("p"), &azcosmos.QueryOptions{PageSizeHint: size})); d != "" {
				t.Errorf("%s, pages of %d: %s", text, size, d)
			}
		}
	}
}

// TestGroups_ConcurrentWrites: a group or distinct value that always exists is returned once, despite
// writes between pages.
func TestGroups_ConcurrentWrites(t *testing.T) {
	ctx := context.Background()
	long := strings.Repeat("x", 2*1024) // longer than maxPositionKey
	for _, text := range []string{
		"SELECT DISTINCT VALUE c.x FROM c",
		"SELECT VALUE c.x FROM c GROUP BY c.x",
		"SELECT DISTINCT VALUE c.x FROM c ORDER BY c.x",
		"SELECT DISTINCT VALUE c.x FROM c ORDER BY c.x DESC",
	} {
		c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
		put := func(id, x int) {
			if _, err := c.UpsertItem(ctx, pk("p"), fmt.Appendf(nil, `{"id":"%d","pk":"p","x":"%s%d"}`, id, long, x),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 7 {
			put(i, i)
		}
		seen := map[string]int{}
		pager := c.NewQueryItemsPager(text, pk("p"), &azcosmos.QueryOptions{PageSizeHint: 2})
		for n := 0; pager.More(); n++ {
			page, err := pager.NextPage(ctx)
			if err != nil || n == 100 {
				t.Fatalf("%s: page %d: %v", text, n, err)
			}
			for _, row := range page.Items {
				seen[strings.Trim(string(row), `x"`)]++
			}
			// The first and last values, 0 and 6, are deleted and created again; 3 moves to another item.
			if n%2 == 0 {
				for _, id := range []string{"0", "6"} {
					if _, err := c.DeleteItem(ctx, pk("p"), id, nil); err != nil {
						t.Fatal(err)
					}
				}
				put(8, 3)
			} else {
				put(0, 0)
				put(6, 6)
				put(8, 5)
			}
		}
		for x := range 7 {
			if n := seen[fmt.Sprint(x)]; n > 1 || n == 0 && x > 0 && x < 6 {
				t.Errorf("%s: value %d is returned %d times, want once", text, x, n)
			}
		}
	}
}

// TestOrderBy_Ties: items with equal values come in the order of their resource ids, in the
// direction of the first term. SDKs rely on it to continue in a physical partition. They read the
// id as a little-endian number with the resource's type, 0, in its upper 4 bits.
func TestOrderBy_Ties(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i := range 3 {
		fillBlog(t, c, fmt.Sprint(i), 50) // in one batch
	}
	for _, direction := range []string{"ASC", "DESC"} {
		count, last := 0, [2]uint64{}
		for token := ""; count == 0 || token != ""; {
			page := queryRange(t, e, "c", "0", token,
				"SELECT VALUE [c.rank, c._rid] FROM c ORDER BY c.rank "+direction, "X-Ms-Max-Item-Count", "7")
			for _, d := range page.Documents {
				var row []any
				mustUnmarshal(t, d, &row)
				rid, err := layout.RIDEncoding.DecodeString(row[1].(string))
				if err != nil || len(rid) != 16 || rid[15]>>4 != 0 {
					t.Fatal(row, rid, err)
				}
				at := [2]uint64{uint64(row[0].(float64)), binary.LittleEndian.Uint64(rid[8:])}
				c := slices.Compare(at[:], last[:])
				if count++; count > 1 && (c > 0) != (direction == "ASC") {
					t.Errorf("%s: %v comes after %v", direction, at, last)
				}
				last = at
			}
			token = page.token
		}
		if count != 150 {
			t.Errorf("%s: %d rows", direction, count)
		}
	}
}
