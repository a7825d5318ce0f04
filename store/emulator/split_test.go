package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"
)

// do sends a request and returns the response.
func do(t testing.TB, e *Engine, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	res, err := e.Do(signed(t, method, path, h, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestSplit_UnderLoad splits partitions during writes, reads of the change feed and queries over all
// partitions.
func TestSplit_UnderLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	e, err := Open(dir, Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	const keys, writers, writes = 40, 4, 120
	for k := range keys {
		mustCreate(t, c, fmt.Sprint(k), fmt.Sprintf(`{"id":"there","pk":"%d","n":0}`, k))
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				key := fmt.Sprint((w + i*writers) % keys)
				doc := fmt.Appendf(nil, `{"id":"w%d","pk":%q,"n":%d}`, w, key, i)
				if _, err := c.UpsertItem(ctx, pk(key), doc, nil); err != nil {
					t.Error(err)
				}
				if _, err := c.ReadItem(ctx, pk(key), "there", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	gone := []string{"0", "3", "1", "5"}
	split := func() {
		if len(gone) > 0 {
			if err := e.Split("db", "c", gone[0]); err != nil {
				t.Errorf("split %s: %v", gone[0], err)
			}
			gone = gone[1:]
		}
	}

	seen := map[string]int{}
	o := azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}, MaxItemCount: 5}
	pager := c.NewQueryItemsPager("SELECT VALUE c.pk FROM c WHERE c.id = 'there' OR 1 = 2", azcosmos.NewPartitionKey(),
		&azcosmos.QueryOptions{PageSizeHint: 3})
	scanned := map[string]int{}
	for finished, empty, round := false, 0, 0; ; round++ {
		if round > 20_000 {
			t.Fatal("the follower or the scan does not end")
		}
		res, err := c.ReadChangeFeed(ctx, &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range res.Items {
			var one struct {
				ID, PK string
				N      int
			}
			mustUnmarshal(t, i, &one)
			if last, ok := seen[one.PK+" "+one.ID]; ok && one.N <= last {
				t.Errorf("%s comes with %d after %d", i, one.N, last)
			}
			seen[one.PK+" "+one.ID] = one.N
		}
		o.Continuation = &res.ContinuationToken
		if pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Items {
				scanned[string(i)]++
			}
		}
		if round%4 == 3 {
			split()
		}
		if res.Count > 0 {
			empty = 0
		} else if empty++; finished && empty > 8 && len(gone) == 0 && !pager.More() {
			break
		}
		select {
		case <-done:
			finished = true
		default:
		}
	}
	for k := range keys {
		if n := scanned[fmt.Sprintf("%q", fmt.Sprint(k))]; n != 1 {
			t.Errorf("the scan over all partitions returned %d %d times, want once", k, n)
		}
	}
	want := keys
	for w := range writers {
		for k := range keys {
			last := -1
			for i := range writes {
				if (w+i*writers)%keys == k {
					last = i
				}
			}
			if last < 0 {
				continue
			}
			want++
			if got, ok := seen[fmt.Sprintf("%d w%d", k, w)]; !ok || got != last {
				t.Errorf("key %d, writer %d: the follower saw %d, want %d", k, w, got, last)
			}
		}
	}
	if len(seen) != want {
		t.Errorf("the follower saw %d items of %d", len(seen), want)
	}

	var ids []azcosmos.ItemIdentity
	for k := range keys {
		ids = append(ids, azcosmos.ItemIdentity{ID: "there", PartitionKey: pk(fmt.Sprint(k))})
	}
	if res, err := c.ReadManyItems(ctx, ids, nil); err != nil || len(res.Items) != keys {
		t.Errorf("read many: %d items, %v", len(res.Items), err)
	}
	check := func(e *Engine) {
		t.Helper()
		ranges, etag := rangesOf(t, e)
		if len(ranges) != 6 || etag != `"10"` {
			t.Errorf("%d ranges, etag %s", len(ranges), etag)
		}
		at := ""
		for _, r := range ranges {
			if r.Min != at {
				t.Errorf("a gap before %+v", r)
			}
			at = r.Max
		}
		last := ranges[slices.IndexFunc(ranges, func(r pkRange) bool { return r.ID == "8" })]
		if at != "FF" ||
			!slices.Equal(last.Parents, []string{"1", "5"}) && !slices.Equal(last.Parents, []string{"0", "3"}) &&
				len(last.Parents) == 0 {
			t.Errorf("%+v", last)
		}
		for _, id := range []string{"0", "3", "1", "5"} {
			res := do(t, e, http.MethodGet, "/dbs/db/colls/c/docs", "", "A-IM", "Incremental Feed",
				"x-ms-documentdb-partitionkeyrangeid", id)
			if res.StatusCode != http.StatusGone || res.Header.Get("X-Ms-Substatus") != "1002" {
				t.Errorf("range %s: %d %s", id, res.StatusCode, res.Header.Get("X-Ms-Substatus"))
			}
		}
	}
	check(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	check(e)
	t.Run("unknown or former partition -> error", func(t *testing.T) {
		for _, in := range [][3]string{{"no", "c", "0"}, {"db", "no", "0"}, {"db", "c", "0"}, {"db", "c", "x"}} {
			if err := e.Split(in[0], in[1], in[2]); err == nil {
				t.Errorf("split of %v succeeded", in)
			}
		}
	})
}

type pkRange struct {
	ID      string
	Status  string
	ETag    string `json:"_etag"`
	Min     string `json:"minInclusive"`
	Max     string `json:"maxExclusive"`
	Parents []string
}

func rangesOf(t testing.TB, e *Engine) ([]pkRange, string) {
	t.Helper()
	res := do(t, e, http.MethodGet, "/dbs/db/colls/c/pkranges", "", "A-IM", "Incremental Feed")
	var body struct{ PartitionKeyRanges []pkRange }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return body.PartitionKeyRanges, res.Header.Get("Etag")
}

// TestSplit_RangesDeliveredAgain: a client that reads the ranges while one of them splits receives that again, with its
// next revision, and after the split its children and that it is offline.
func TestSplit_RangesDeliveredAgain(t *testing.T) {
	e := newEngine(t, Options{Partitions: 2})
	newContainer(t, e, azcosmos.ContainerProperties{})
	etag, etags := "", map[string]bool{} // of the range 0, since all ranges were read
	read := func() (got []string) {
		t.Helper()
		res := do(t, e, http.MethodGet, "/dbs/db/colls/c/pkranges", "", "A-IM", "Incremental Feed", "If-None-Match",
			etag)
		etag = res.Header.Get("Etag")
		if res.StatusCode == http.StatusNotModified {
			return []string{"304"}
		}
		var body struct{ PartitionKeyRanges []pkRange }
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		for _, r := range body.PartitionKeyRanges {
			if r.ID == "0" && r.Status != rangeOffline {
				if etags[r.ETag] {
					t.Errorf("the revision %s comes twice", r.ETag)
				}
				etags[r.ETag] = true
			}
			got = append(got, fmt.Sprint(r.ID, " ", r.Status, " ", r.Parents))
		}
		return got
	}
	want := func(lines ...string) {
		t.Helper()
		if d := cmp.Diff(lines, read()); d != "" {
			t.Error(d)
		}
	}
	want("0 online []", "1 online []")
	want("304")
	if err := e.StartSplit("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	want("0 splitting []")
	want("304")
	etag, etags = "", map[string]bool{}
	want("0 splitting []", "1 online []")
	want("0 splitting []")
	want("304")
	before := etag
	if err := e.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	want("2 online [0]", "3 online [0]", "0 offline []")
	want("304")
	etag, etags = "", map[string]bool{}
	want("2 online [0]", "3 online [0]", "1 online []")
	want("304")
	etag = before
	want("2 online [0]", "3 online [0]", "0 offline []")
	for _, id := range []string{"0", "x"} {
		if err := e.StartSplit("db", "c", id); err == nil {
			t.Errorf("range %s: the split begins", id)
		}
	}
}

// TestSplit_ColdClient: operations of azcosmos that read the ranges succeed on a client that does not know them while
// one of them splits, and after that.
func TestSplit_ColdClient(t *testing.T) {
	whole := azcosmos.FeedRange{MaxExclusive: "FF"}
	for name, run := range map[string]func(context.Context, *azcosmos.ContainerClient) (int, error){
		"ReadFeedRanges": func(ctx context.Context, c *azcosmos.ContainerClient) (int, error) {
			ranges, err := c.ReadFeedRanges(ctx, nil)
			return len(ranges), err
		},
		"ReadChangeFeed": func(ctx context.Context, c *azcosmos.ContainerClient) (int, error) {
			page, err := c.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &whole})
			return page.Count, err
		},
		"ReadManyItems": func(ctx context.Context, c *azcosmos.ContainerClient) (int, error) {
			page, err := c.ReadManyItems(ctx,
				[]azcosmos.ItemIdentity{{ID: "1", PartitionKey: pk("a")}, {ID: "1", PartitionKey: pk("b")}}, nil)
			return len(page.Items), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Options{Partitions: 2})
			c := newContainer(t, e, azcosmos.ContainerProperties{})
			mustCreate(t, c, "a", `{"id":"1","pk":"a"}`)
			mustCreate(t, c, "b", `{"id":"1","pk":"b"}`)
			if err := e.StartSplit("db", "c", "0"); err != nil {
				t.Fatal(err)
			}
			if n, err := run(t.Context(), c); n == 0 || err != nil {
				t.Errorf("while a range splits: %d results, %v", n, err)
			}
			if err := e.Split("db", "c", "0"); err != nil {
				t.Fatal(err)
			}
			if n, err := run(t.Context(), c); n == 0 || err != nil {
				t.Errorf("after the split: %d results, %v", n, err)
			}
		})
	}
}

// TestSplit_Queries pages each kind of plan and splits between the pages.
func TestSplit_Queries(t *testing.T) {
	for _, one := range []struct {
		name, query string
		key         azcosmos.PartitionKey
		want        int
	}{
		{"order of creation", "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKey(), 90},
		{"range index", "SELECT VALUE c.id FROM c WHERE c.odd = true", azcosmos.NewPartitionKey(), 45},
		{"prefix of a hierarchical key", "SELECT VALUE c.id FROM c WHERE c.a = 'x'", azcosmos.NewPartitionKey(), 45},
		{"one logical partition", "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString("x").AppendString("1"),
			15},
		{"full-text index", "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'odd')",
			azcosmos.NewPartitionKey(), 45},
		{"full-text index, prefix",
			"SELECT VALUE c.id FROM c WHERE c.a = 'x' AND FullTextContainsAny(c.t, 'even', 'odd')",
			azcosmos.NewPartitionKey(), 45},
		{"full-text index, sorted", "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'even') ORDER BY c.n",
			azcosmos.NewPartitionKeyString("x").AppendString("1"), 15},
		{"sorted", "SELECT VALUE c.id FROM c ORDER BY c.n", azcosmos.NewPartitionKeyString("x").AppendString("1"), 15},
		{"points", "SELECT VALUE c.id FROM c WHERE c.a = 'x' AND c.b = '1' AND c.id IN ('2','8','14','20','26')",
			azcosmos.NewPartitionKey(), 5},
	} {
		t.Run(one.name, func(t *testing.T) {
			ctx := context.Background()
			e := newEngine(t, Options{})
			properties := textProperties("c", true)
			properties.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{
				Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2, Paths: []string{"/a", "/b"}}
			c := newContainer(t, e, properties)
			for i := range 90 {
				a, b := string("yx"[(i+1)%2]), fmt.Sprint(i/2%3)
				doc := fmt.Appendf(nil, `{"id":"%d","a":%q,"b":%q,"n":%d,"odd":%v,"t":%q}`, i, a, b, -i, i%2 == 1,
					[]string{"even", "odd"}[i%2])
				if _, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString(a).AppendString(b), doc,
					nil); err != nil {
					t.Fatal(err)
				}
			}
			pager := c.NewQueryItemsPager(one.query, one.key, &azcosmos.QueryOptions{PageSizeHint: 2})
			seen := map[string]int{}
			for n := 0; pager.More(); n++ {
				page, err := pager.NextPage(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range page.Items {
					seen[string(i)]++
				}
				if n == 1 || n == 2 || n == 6 {
					ranges, _ := rangesOf(t, e)
					id := ranges[0].ID // the partition being read, or one read before
					if n == 6 {
						id = ranges[len(ranges)-1].ID
					}
					if err := e.Split("db", "c", id); err != nil {
						t.Fatal(err)
					}
				}
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s: %d times", id, n)
				}
			}
			if len(seen) != one.want {
				t.Errorf("%d rows, want %d", len(seen), one.want)
			}
		})
	}
}

// TestSplit_Continuations: clients of a physical partition continue in each of its descendants with
// their token. In order of creation, items created meanwhile come last.
func TestSplit_Continuations(t *testing.T) {
	var named []string
	for i := range 60 {
		named = append(named, fmt.Sprintf("c.id = '%d' AND c.pk = '%d'", i, i))
	}
	for name, c := range map[string]struct {
		query string
		more  int // items that are created after each split
	}{
		"in order of creation": {"SELECT VALUE c.id FROM c", 20},
		"by a range index":     {"SELECT VALUE c.id FROM c WHERE c.a = 1", 0},
		"by an interval":       {"SELECT VALUE c.id FROM c WHERE c.n >= 0", 0},
		"by a full-text index": {"SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'a text')", 0},
		"by point lookups":     {"SELECT VALUE c.id FROM c WHERE " + strings.Join(named, " OR "), 0},
	} {
		t.Run(name, func(t *testing.T) { followSplits(t, c.query, c.more) })
	}
}

func followSplits(t *testing.T, query string, more int) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, textProperties("c", true))
	create := func(from, to int) {
		for i := from; i < to; i++ {
			mustCreate(t, c, fmt.Sprint(i), fmt.Sprintf(`{"id":"%d","pk":"%d","a":1,"n":%d,"t":"a text"}`, i, i, i))
		}
	}
	create(0, 60)
	seen := map[string]int{}
	var follow func(id, token string, pages int)
	follow = func(id, token string, pages int) {
		for n := 0; n == 0 || token != ""; n++ {
			page := queryRange(t, e, "c", id, token, query, "X-Ms-Max-Item-Count", "4")
			if page.status == http.StatusGone {
				for _, r := range rangesIn(e, "c") {
					if token, parents := token,
						partitionOf(e, "c", r).Parents; partitionkey.RangeID(parents[len(parents)-1]) == id {
						follow(r, token, pages)
					}
				}
				return
			}
			if page.status != http.StatusOK {
				t.Fatalf("range %s: %d", id, page.status)
			}
			for _, d := range page.Documents {
				seen[string(d)]++
			}
			if token = page.token; n == pages && len(rangesIn(e, "c")) < 3 {
				if err := e.Split("db", "c", id); err != nil {
					t.Fatal(err)
				}
				create(len(rangesIn(e, "c"))*100, len(rangesIn(e, "c"))*100+more)
			}
		}
	}
	follow("0", "", 2)
	if len(rangesIn(e, "c")) != 3 || len(seen) != 60+2*more {
		t.Errorf("%d items of %d, %d partitions", len(seen), 60+2*more, len(rangesIn(e, "c")))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", id, n)
		}
	}
	audit(t, e)
}

func partitionOf(e *Engine, container, id string) *partition {
	c := e.catalog.Load().databases["db"].containers[container]
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ranges[slices.IndexFunc(c.ranges, func(p *partition) bool { return p.ID() == id })]
}

func TestCreateContainer_Partitions(t *testing.T) {
	for name, def := range map[string]azcosmos.PartitionKeyDefinition{
		"V2":        {Paths: []string{"/pk"}, Version: 2},
		"V1":        {Paths: []string{"/pk"}, Version: 1},
		"MultiHash": {Paths: []string{"/pk", "/id"}, Version: 2, Kind: azcosmos.PartitionKeyKindMultiHash},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Options{Partitions: 4})
			c := newContainer(t, e, azcosmos.ContainerProperties{PartitionKeyDefinition: def})
			for i := range 200 {
				key := pk(fmt.Sprint(i))
				if len(def.Paths) > 1 {
					key = key.AppendString("a")
				}
				if _, err := c.CreateItem(context.Background(), key, fmt.Appendf(nil, `{"id":"a","pk":"%d"}`, i),
					nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Split("db", "c", "3"); err != nil {
				t.Fatal(err)
			}
			ranges, err := c.ReadFeedRanges(context.Background(), nil)
			if err != nil || len(ranges) != 5 {
				t.Fatal(ranges, err)
			}
			total := 0
			for i := range ranges {
				n := len(changes(t, c, &azcosmos.ChangeFeedOptions{FeedRange: &ranges[i]}))
				if n < 10 || n > 90 {
					t.Errorf("range %d has %d items of 200", i, n)
				}
				total += n
			}
			if total != 200 {
				t.Errorf("%d items", total)
			}
		})
	}
	if _, err := Open("", Options{Partitions: -1}); err == nil {
		t.Error("Open with -1 partitions succeeded")
	}
}

// TestSplit_SessionTokens: a session token of the parent is valid for the children.
func TestSplit_SessionTokens(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	made := mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	if err := e.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	res, err := c.ReadItem(ctx, pk("p"), "1", &azcosmos.ItemOptions{SessionToken: made.SessionToken})
	if err != nil {
		t.Fatal(err)
	}
	if got := *res.SessionToken; got != "1:-1#1" && got != "2:-1#1" {
		t.Errorf("session token %s", got)
	}
	ahead := "0:-1#9"
	_, err = c.ReadItem(ctx, pk("p"), "1", &azcosmos.ItemOptions{SessionToken: &ahead})
	wantStatus(t, err, http.StatusNotFound, "1002")
}

// TestSplit_Interrupted: the next split ignores the entries of an interrupted one.
func TestSplit_Interrupted(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i := range 20 {
		mustCreate(t, c, fmt.Sprint(i), fmt.Sprintf(`{"id":"%d","pk":"%d"}`, i, i))
	}
	crash := errors.New("crash")
	err := e.changeMeta(context.Background(), func(m *metaChange) error {
		inner := m.cat.databases["db"].containers["c"]
		m.lock(inner)
		return errors.Join(m.split(inner, 0), crash)
	})
	if !errors.Is(err, crash) {
		t.Fatal(err)
	}
	if got := changes(t, c, nil); len(got) != 20 {
		t.Errorf("%d items after an interrupted split, want 20", len(got))
	}
	for i := range 10 {
		if _, err := c.DeleteItem(ctx, pk(fmt.Sprint(i)), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{layout.KindFeed, layout.KindOrder} {
		it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for it.First(); it.Valid(); it.Next() {
			n++
		}
		if err := it.Close(); err != nil || n != 10 {
			t.Errorf("%d entries of kind %c, %v", n, kind, err)
		}
	}
}

// TestQuery_FeedRange: a query of a range narrower than a physical partition sees the items of that
// range, whatever the plan.
func TestQuery_FeedRange(t *testing.T) {
	const docs = "/dbs/db/colls/c/docs"
	for _, paths := range [][]string{{"/pk"}, {"/pk", "/sub"}} {
		e := newEngine(t, Options{Partitions: 2})
		c := newContainer(t, e,
			azcosmos.ContainerProperties{PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: paths,
				Version: 2}})
		where := map[string][]byte{} // effective partition keys by id
		for i := range 60 {
			id, text := strconv.Itoa(i), strconv.Itoa(i%40)
			key, of := azcosmos.NewPartitionKeyString(text), []string{text}
			if len(paths) > 1 {
				key, of = key.AppendString("x"), append(of, "x")
			}
			if _, err := c.CreateItem(context.Background(), key,
				fmt.Appendf(nil, `{"id":%q,"pk":%q,"sub":"x","kind":"k","n":%d}`, id, text, i), nil); err != nil {
				t.Fatal(err)
			}
			where[id] = epkOf(t, e, of...)
		}
		for _, query := range []string{
			`{"query":"SELECT VALUE c.id FROM c"}`,
			`{"query":"SELECT VALUE c.id FROM c WHERE c.kind = 'k'"}`,
			`{"query":"SELECT VALUE c.id FROM c ORDER BY c.n DESC"}`,
			`{"query":"SELECT DISTINCT VALUE c.id FROM c"}`,
			`{"query":"SELECT VALUE c.id FROM c WHERE c.n < 1000 OFFSET 0 LIMIT 1000"}`,
			`{"query":"SELECT VALUE c.id FROM c WHERE (c.id = '1' AND c.pk = '1' AND c.sub = 'x') OR (c.id = '45' AND c.pk = '5' AND c.sub = 'x')"}`,
			`{"query":"SELECT VALUE c.id FROM c WHERE c.pk = '7'"}`,
			`{"query":"SELECT VALUE c.id FROM c WHERE c.pk = '7' AND c.sub = 'x' AND c.id = '7'"}`,
		} {
			read := func(headers ...string) (ids []string) {
				for token, more := "", true; more; more = token != "" {
					res := do(t, e, "POST", docs, query,
						append([]string{"Content-Type", "application/query+json", "x-ms-max-item-count", "4",
							"x-ms-continuation", token}, headers...)...)
					var page struct{ Documents []string }
					if err := json.NewDecoder(res.Body).Decode(&page); err != nil || res.StatusCode != 200 {
						t.Fatal(res.Status, err)
					}
					ids, token = append(ids, page.Documents...), res.Header.Get("X-Ms-Continuation")
				}
				return ids
			}
			// Also without a physical partition, whether or not WHERE pins a key.
			for _, low := range []string{"", "14", "28"} {
				if strings.Contains(query, "ORDER") || strings.Contains(query, "DISTINCT") ||
					strings.Contains(query, "OFFSET") {
					continue // the client has to merge these
				}
				high := map[string]string{"": "14", "14": "28", "28": "FF"}[low]
				for _, id := range read("x-ms-documentdb-query-enablecrosspartition", "true", "x-ms-start-epk", low,
					"x-ms-end-epk", high) {
					if epk := partitionkey.FormatEPK(where[id]); epk < low || epk >= high {
						t.Errorf("%v %s: %s with key %s is not from %s to %s", paths, query, id, epk, low, high)
					}
				}
			}
			var all, parts []string
			ranges, _ := rangesOf(t, e)
			for _, r := range ranges {
				all = append(all, read("x-ms-documentdb-partitionkeyrangeid", r.ID)...)
				bounds := []string{r.Min, "14", "28", "32", r.Max} // some are outside of the partition
				slices.Sort(bounds)
				for i := range len(bounds) - 1 {
					low, high := bounds[i], bounds[i+1]
					some := read("x-ms-documentdb-partitionkeyrangeid", r.ID, "x-ms-start-epk", low, "x-ms-end-epk",
						high, "x-ms-read-key-type", "EffectivePartitionKeyRange")
					for _, id := range some {
						if epk := partitionkey.FormatEPK(where[id]); epk < low || epk >= high {
							t.Errorf("%v %s: %s with key %s is not from %s to %s", paths, query, id, epk, low, high)
						}
					}
					parts = append(parts, some...)
				}
			}
			slices.Sort(all)
			slices.Sort(parts)
			if d := cmp.Diff(all, parts); d != "" || len(all) == 0 {
				t.Errorf("%v %s: %s", paths, query, d)
			}
		}
	}
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for _, headers := range [][]string{
		{"x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-start-epk", "not hexadecimal"},
		{"x-ms-documentdb-partitionkey", `["p"]`, "x-ms-start-epk", "05", "x-ms-end-epk", "10"},
	} {
		if res := do(t, e, "POST", docs, `{"query":"SELECT * FROM c"}`,
			append(headers, "Content-Type", "application/query+json")...); res.StatusCode != 400 {
			t.Errorf("%v: %s", headers, res.Status)
		}
	}
}
