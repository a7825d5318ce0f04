package emulator

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/store/emulator/internal/charge"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestCharge_Recorded compares with charges that the hosted service reported for items under 1 KB
// with the default indexing policy.
func TestCharge_Recorded(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	charged := func(name string, want float64, r azcosmos.Response, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := float64(r.RequestCharge); math.Abs(got-want) > 0.0051 {
			t.Errorf("%s: charge %v, recorded %v", name, got, want)
		}
	}
	failed := func(name string, want string, err error) {
		t.Helper()
		r := rawResponse(err)
		if r == nil || r.Header.Get("x-ms-request-charge") != want {
			t.Errorf("%s: got %v, want an error with charge %s", name, err, want)
		}
	}
	doc := func(id string, properties int) []byte {
		b := fmt.Appendf(nil, `{"id":%q,"pk":"p"`, id)
		for i := 2; i < properties; i++ {
			b = fmt.Appendf(b, `,"p%d":%d`, i, i)
		}
		return append(b, '}')
	}
	for n, want := range map[int]float64{3: 6.286, 4: 6.667, 5: 7.048} {
		r, err := c.CreateItem(ctx, pk("p"), doc(fmt.Sprintf("n%d", n), n), nil)
		charged(fmt.Sprintf("create, %d properties", n), want, r.Response, err)
	}
	_, err := c.CreateItem(ctx, pk("p"), doc("n3", 3), nil)
	failed("create of an existing item", "1.48", err)
	r, err := c.ReadItem(ctx, pk("p"), "n3", nil)
	charged("point read", 1, r.Response, err)
	_, err = c.ReadItem(ctx, pk("p"), "nothing", nil)
	failed("read of a missing item", "1", err)

	r, err = c.ReplaceItem(ctx, pk("p"), "n4", []byte(`{"id":"n4","pk":"p","p2":99,"p3":3}`), nil)
	charged("replace, 1 property changed", 10.667, r.Response, err)
	r, err = c.ReplaceItem(ctx, pk("p"), "n4", []byte(`{"id":"n4","pk":"p","p2":98,"p3":4}`), nil)
	charged("replace, 2 properties changed", 11.048, r.Response, err)
	stale := azcosmos.ItemOptions{}
	tag := r.ETag + "x"
	stale.IfMatchEtag = &tag
	_, err = c.ReplaceItem(ctx, pk("p"), "n4", doc("n4", 4), &stale)
	failed("replace with a stale etag", "1.24", err)

	r, err = c.PatchItem(ctx, pk("p"), "n5", patchOf("/p2", 1), nil)
	charged("patch, 1 operation", 10.601, r.Response, err)
	three := patchOf("/p2", 1)
	three.AppendIncrement("/p3", 1)
	three.AppendIncrement("/p4", 1)
	r, err = c.PatchItem(ctx, pk("p"), "n5", three, nil)
	charged("patch, 3 operations", 11.42, r.Response, err)
	r, err = c.DeleteItem(ctx, pk("p"), "n4", nil)
	charged("delete, 4 properties", 6.667, r.Response, err)

	b := c.NewTransactionalBatch(pk("batch"))
	for i := range 100 {
		b.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":"batch","a":1,"b":2,"c":3}`, i), nil)
	}
	out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
	charged("batch of 100 creates", 704.76, out.Response, err)
	b = c.NewTransactionalBatch(pk("batch"))
	b.CreateItem([]byte(`{"id":"1","pk":"batch"}`), nil)
	out, err = c.ExecuteTransactionalBatch(ctx, b, nil)
	charged("batch that conflicts", 1.571, out.Response, err)

	for _, q := range []struct {
		name, text, key string
		want            float64
	}{
		{"query without rows", "SELECT * FROM c", "empty", 2.25},
		{"query for one item", "SELECT c.id FROM c", "p1", 2.26},
		{"count of 500", "SELECT VALUE COUNT(1) FROM c", "p500", 2.99},
		{"1000 rows of 2 columns", "SELECT c.id, c.pk FROM c", "p1000", 17.16},
	} {
		fillSmall(t, c, q.key)
		page, err := c.NewQueryItemsPager(q.text, pk(q.key), nil).NextPage(ctx)
		charged(q.name, q.want, page.Response, err)
	}
	feed, err := c.ReadChangeFeed(ctx,
		&azcosmos.ChangeFeedOptions{MaxItemCount: 1, FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
	charged("change feed page of one item", 1, feed.Response, err)
}

// fillSmall creates as many items as the key names, of 0.25 KB with system properties.
func fillSmall(t *testing.T, c *azcosmos.ContainerClient, key string) {
	t.Helper()
	var n int
	fmt.Sscanf(key, "p%d", &n)
	for at := 0; at < n; at += 100 {
		b := c.NewTransactionalBatch(pk(key))
		for i := at; i < min(n, at+100); i++ {
			b.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":%q}`, i, key), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(context.Background(), b, nil); err != nil || !out.Success {
			t.Fatal(err)
		}
	}
}

// TestCharge_Article checks, within 5%, the two writes of the article's first version that depend on
// nothing but the model.
func TestCharge_Article(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	users := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "users",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}})
	posts := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "posts",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/postId"}}})
	user, err := users.CreateItem(ctx, pk("u"), []byte(`{"id":"u","username":"ada"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	like, err := posts.CreateItem(ctx, pk("p"),
		[]byte(`{"id":"l","type":"like","postId":"p","userId":"u","creationDate":"2024-01-01"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name      string
		got, want float64
	}{{"C1", float64(user.RequestCharge), 5.71}, {"C4", float64(like.RequestCharge), 7.05}} {
		if math.Abs(one.got-one.want) > one.want*0.05 {
			t.Errorf("%s: %v, the article has %v", one.name, one.got, one.want)
		}
	}
}

func TestCharge_ExcludedPaths(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	all := newContainer(t, e, azcosmos.ContainerProperties{ID: "all"})
	few := newContainer(t, e, azcosmos.ContainerProperties{ID: "few", IndexingPolicy: blogPolicy()})
	doc := []byte(`{"id":"1","pk":"p","title":"t","content":"` + strings.Repeat("x", 100) +
		`","tags":["a","b"],"userId":"u"}`)
	a, err := all.CreateItem(ctx, pk("p"), doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := few.CreateItem(ctx, pk("p"), doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.RequestCharge >= a.RequestCharge {
		t.Errorf("%v with few paths, %v with all", b.RequestCharge, a.RequestCharge)
	}
}

// TestCharge_PartitionKeyNotIndexed: without the partition key path in the policy, a query in a
// logical partition costs as much as a scan of the physical partition for the same rows.
func TestCharge_PartitionKeyNotIndexed(t *testing.T) {
	e := newEngine(t, Options{Partitions: 2})
	charge := func(c *azcosmos.ContainerClient, key, text string) float64 {
		t.Helper()
		page, err := c.NewQueryItemsPager(text, pk(key), nil).NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return float64(page.RequestCharge)
	}
	fill := func(c *azcosmos.ContainerClient) {
		t.Helper()
		for key := range 20 { // 10 in each half of the key space, give or take a few
			for n := range 5 {
				mustCreate(t, c, fmt.Sprint(key),
					fmt.Sprintf(`{"id":"%d","pk":"%d","kind":"k","copy":"%d","text":%q}`, n, key, key,
						strings.Repeat("x", 2000)))
			}
		}
	}
	policy := func(included ...string) *azcosmos.IndexingPolicy {
		p := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
		for _, path := range included {
			p.IncludedPaths = append(p.IncludedPaths, azcosmos.IncludedPath{Path: path})
		}
		return p
	}
	bare := newContainer(t, e, azcosmos.ContainerProperties{ID: "bare", IndexingPolicy: policy()})
	kind := newContainer(t, e, azcosmos.ContainerProperties{ID: "kind", IndexingPolicy: policy("/kind/?")})
	indexed := newContainer(t, e,
		azcosmos.ContainerProperties{ID: "indexed", IndexingPolicy: policy("/pk/?", "/kind/?")})
	for _, c := range []*azcosmos.ContainerClient{bare, kind, indexed} {
		fill(c)
	}
	scan := func(id, key string) float64 { // of the physical partition of a key
		t.Helper()
		item := do(t, e, http.MethodGet, "/dbs/db/colls/"+id+"/docs/0", "", "x-ms-documentdb-partitionkey",
			`["`+key+`"]`)
		h := http.Header{"Content-Type": {"application/query+json"},
			"X-Ms-Documentdb-Partitionkeyrangeid": {item.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")}}
		res, err := e.Do(signed(t, http.MethodPost, "/dbs/db/colls/"+id+"/docs", h,
			fmt.Appendf(nil, `{"query":"SELECT * FROM c WHERE c.copy = '%s'"}`, key)))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
		ru, err := strconv.ParseFloat(res.Header.Get("X-Ms-Request-Charge"), 64)
		if err != nil {
			t.Fatal(err)
		}
		return ru
	}
	const few = "SELECT * FROM c WHERE c.kind = 'k'"
	for _, key := range []string{"1", "2", "3"} {
		for name, c := range map[string]*azcosmos.ContainerClient{"bare": bare, "kind": kind} {
			for _, text := range []string{"SELECT * FROM c", few, "SELECT * FROM c WHERE c.pk = '" + key + "'"} {
				if got, want := charge(c, key, text), scan(name, key); math.Abs(got-want) > 0.011 {
					t.Errorf("%s, %s: %v RU, a scan %v", name, text, got, want)
				}
			}
		}
		if got, most := charge(indexed, key, few), scan("bare", key)/2; got > most {
			t.Errorf("indexed: %v RU, more than %v", got, most)
		}
		if got := charge(bare, key, "SELECT * FROM c WHERE c.id = '1'"); got > 3 {
			t.Errorf("query by id: %v RU", got)
		}
	}
	// The size is maintained.
	before := charge(bare, "1", few)
	for n := range 5 {
		if _, err := bare.DeleteItem(t.Context(), pk("1"), fmt.Sprint(n), nil); err != nil {
			t.Fatal(err)
		}
	}
	mustCreate(t, bare, "1", `{"id":"9","pk":"1","copy":"1"}`)
	patch := azcosmos.PatchOperations{}
	patch.AppendSet("/text", strings.Repeat("y", 1000))
	if _, err := bare.PatchItem(t.Context(), pk("1"), "9", patch, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := charge(bare, "1", "SELECT * FROM c"),
		scan("bare", "1"); got >= before || math.Abs(got-want) > 0.011 {
		t.Errorf("after writes: %v RU, a scan %v, before %v", got, want, before)
	}
	if err := e.Split("db", "bare", "0"); err != nil {
		t.Fatal(err)
	}
	if err := e.Split("db", "bare", "1"); err != nil {
		t.Fatal(err)
	}
	// a scan has one more seek
	if got, want := charge(bare, "1", "SELECT * FROM c"),
		scan("bare", "1"); got >= before || math.Abs(got-want) > 0.25 {
		t.Errorf("after splits: %v RU, a scan %v, before %v", got, want, before)
	}
}

// TestQueryMetrics_LoadedSize: the size loaded does not depend on the columns.
func TestQueryMetrics_LoadedSize(t *testing.T) {
	var now atomic.Int64
	now.Store(999_999_995) // 5 s before _ts gets another digit
	e := newEngine(t, Options{Clock: func() time.Time { return time.Unix(now.Load(), 0) }})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i := range 9 {
		now.Add(1)
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p","text":%q}`, i, strings.Repeat("x", i)))
	}
	sizes := map[string]string{}
	for _, row := range []string{"*", "c.id", "c.id, c._ts", "c.id, c.text", "VALUE c"} {
		body := fmt.Appendf(nil, `{"query":"SELECT %s FROM c"}`, row)
		h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Documentdb-Partitionkey": {`["p"]`},
			"X-Ms-Documentdb-Populatequerymetrics": {"true"}}
		res, err := e.Do(signed(t, "POST", "/dbs/db/colls/c/docs", h, body))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
		_, rest, _ := strings.Cut(res.Header.Get("X-Ms-Documentdb-Query-Metrics"), "retrievedDocumentSize=")
		sizes[row], _, _ = strings.Cut(rest, ";")
	}
	for row, size := range sizes {
		if size == "" || size != sizes["*"] {
			t.Errorf("SELECT %s: %s, SELECT *: %s", row, size, sizes["*"])
		}
	}
}

// TestCharge_Array: an array is charged as one value, whatever its elements.
func TestCharge_Array(t *testing.T) {
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	item := func(list string) []byte { return fmt.Appendf(nil, `{"id":"1","pk":"p",%s}`, list) }
	for name, tt := range map[string]struct {
		was, is         string
		leaves, changed int // leaves of the first document besides id and partition key; changed paths
	}{
		"no change":            {`"a":[1,2,3]`, `"a":[1,2,3]`, 1, 0},
		"another property":     {`"a":[1,2,3],"b":1`, `"a":[1,2,3],"b":2`, 2, 1},
		"an element":           {`"a":[1,2,3]`, `"a":[1,9,3]`, 1, 1},
		"several elements":     {`"a":[1,2,3]`, `"a":[0,1,2,3]`, 1, 1},
		"an array is added":    {`"b":1`, `"a":[1,2,3],"b":1`, 1, 1},
		"an array is removed":  {`"a":[1,[2],{"x":3}],"b":1`, `"b":1`, 2, 1},
		"order of members":     {`"a":[1,2],"b":1`, `"b":1,"a":[1,2]`, 2, 0},
		"array in an object":   {`"o":{"a":[1,2],"b":3}`, `"o":{"a":[1],"b":3}`, 2, 1},
		"number becomes array": {`"a":1`, `"a":[1,2]`, 1, 1},
		"array becomes object": {`"a":[1,2]`, `"a":{"0":1,"1":2}`, 1, 3},
		"repeated name":        {`"a":[1,2],"a":[3]`, `"a":[1,2],"a":[4]`, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			near := func(what string, got float32, want float64) {
				t.Helper()
				if math.Abs(float64(got)-want) > 0.0051 {
					t.Errorf("%s: charge %v, want %v", what, got, want)
				}
			}
			r, err := c.CreateItem(t.Context(), pk("p"), item(tt.was), nil)
			if err != nil {
				t.Fatal(err)
			}
			near("create", r.RequestCharge, charge.Create(0, 2+tt.leaves, 0))
			if r, err = c.ReplaceItem(t.Context(), pk("p"), "1", item(tt.is), nil); err != nil {
				t.Fatal(err)
			}
			near("replace", r.RequestCharge, charge.Replace(0, 0, tt.changed, 0))
			if r, err = c.ReplaceItem(t.Context(), pk("p"), "1", item(tt.was), nil); err != nil {
				t.Fatal(err)
			}
			near("replace, back", r.RequestCharge, charge.Replace(0, 0, tt.changed, 0))
			if r, err = c.DeleteItem(t.Context(), pk("p"), "1", nil); err != nil {
				t.Fatal(err)
			}
			near("delete", r.RequestCharge, charge.Create(0, 2+tt.leaves, 0))
		})
	}
}

// TestWrite_LongArray: no index has the elements, so the write takes little memory.
func TestWrite_LongArray(t *testing.T) {
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	long := "[" + strings.Repeat("7,", 1_000_000) + "7]"
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	mustCreate(t, c, "p", `{"id":"1","pk":"p","long":`+long+`}`)
	for _, path := range []string{"/other", "/long/-"} {
		ops := azcosmos.PatchOperations{}
		ops.AppendAdd(path, 1)
		if _, err := c.PatchItem(t.Context(), pk("p"), "1", ops, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.DeleteItem(t.Context(), pk("p"), "1", nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&is)
	if took := is.TotalAlloc - was.TotalAlloc; took > 100<<20 {
		t.Errorf("four writes took %d MB", took>>20)
	}
}
