package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

// TestTooMuchWork: what the query language refuses to do is a 400 that names the
// construct, wherever it stands.
func TestTooMuchWork(t *testing.T) {
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
		if wantStatus(t, err, http.StatusBadRequest, ""); !strings.Contains(err.Error(), "SC1001") || !strings.Contains(err.Error(), "REPLACE is larger than 2097152 bytes") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var p azcosmos.PatchOperations
	p.AppendSet("/x", 1)
	p.SetCondition("from c where REPLACE(c.s, 'a', c.s) != ''")
	_, err := c.PatchItem(ctx, pk("p"), "1", p, nil)
	wantStatus(t, err, http.StatusBadRequest, "")
}

// TestContinuationAfterReindex: a position in an index that is no more is refused;
// it may lie anywhere in the one that is.
func TestContinuationAfterReindex(t *testing.T) {
	ctx := context.Background()
	asc := azcosmos.CompositeIndexAscending
	columns := func(paths ...string) (index []azcosmos.CompositeIndex) {
		for _, p := range paths {
			index = append(index, azcosmos.CompositeIndex{Path: p, Order: asc})
		}
		return index
	}
	policy := func(included string, composites ...[]azcosmos.CompositeIndex) *azcosmos.IndexingPolicy {
		return &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent, CompositeIndexes: composites,
			IncludedPaths: []azcosmos.IncludedPath{{Path: included}}, ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
	}
	byDate := columns("/type", "/creationDate", "/id")
	for _, test := range []struct {
		name, text    string
		key           azcosmos.PartitionKey
		before, after *azcosmos.IndexingPolicy
	}{
		{"the same index under another number", "SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.type, c.creationDate, c.id", pk("p"),
			policy("/x/?", byDate, columns("/name", "/id")), policy("/x/?", columns("/name", "/id"), byDate)},
		{"another index under the same number", "SELECT * FROM c WHERE c.type = 'comment'", pk("p"),
			policy("/x/?", byDate), policy("/x/?", columns("/type", "/name"))},
		{"equality on another path", "SELECT * FROM c WHERE c.type = 'comment' AND c.rank = 1", azcosmos.NewPartitionKey(),
			policy("/type/?"), policy("/rank/?")},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: test.before})
			fillBlog(t, c, "p", 60)
			page, err := c.NewQueryItemsPager(test.text, test.key, &azcosmos.QueryOptions{PageSizeHint: 5}).NextPage(ctx)
			if err != nil || page.ContinuationToken == nil {
				t.Fatal(page.ContinuationToken, err)
			}
			if _, err := c.Replace(ctx, azcosmos.ContainerProperties{ID: "c", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, IndexingPolicy: test.after}, nil); err != nil {
				t.Fatal(err)
			}
			_, err = c.NewQueryItemsPager(test.text, test.key, &azcosmos.QueryOptions{PageSizeHint: 5, ContinuationToken: page.ContinuationToken}).NextPage(ctx)
			if wantStatus(t, err, http.StatusBadRequest, ""); !strings.Contains(err.Error(), "Invalid Continuation Token") {
				t.Error(err)
			}
			if rows := queryAll(t, c, test.text, test.key, nil); len(rows) == 0 {
				t.Error("no rows from the beginning")
			}
		})
	}
}

// TestSortOfLargeValues sorts by more bytes than are kept: pages are cut short, even
// within what OFFSET leaves out, but nothing is missing.
func TestSortOfLargeValues(t *testing.T) {
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{IndexingPolicy: &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}})
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

// TestPageOfAnOrder compares with a sort of everything.
func TestPageOfAnOrder(t *testing.T) {
	for most := range 20 {
		p := page{most: most}
		var all [][]byte
		for range rand.IntN(300) {
			key := []byte{byte(rand.IntN(250)), byte(rand.IntN(250)), byte(len(all)), byte(len(all) >> 8)}
			all = append(all, key)
			p.add(key, 0)
		}
		p.trim()
		slices.SortFunc(all, bytes.Compare)
		want := all[:min(most, len(all))]
		if len(p.items) != len(want) || p.more != (len(all) > most) {
			t.Fatalf("%d of %d items, more %v; want %d", len(p.items), len(all), p.more, len(want))
		}
		for i, it := range p.items {
			if !bytes.Equal(it.key, want[i]) {
				t.Fatalf("item %d of %d is %v, want %v", i, most, it.key, want[i])
			}
		}
	}
}

// heldContext is a request's context. A query that asks for the tenth time whether
// its client is gone is held until resume is closed.
type heldContext struct {
	context.Context
	asked    atomic.Int64
	canceled atomic.Bool
	held     chan struct{} // closed when it is
	resume   chan struct{}
}

func (c *heldContext) Err() error {
	if c.asked.Add(1) == 10 {
		close(c.held)
		<-c.resume
	}
	if c.canceled.Load() {
		return context.Canceled
	}
	return nil
}

type heldAnswer struct {
	rows int
	err  error
}

// heldQuery begins a query that sorts 1000 items in memory, and returns while it is
// held.
func heldQuery(t *testing.T) (*Engine, *azcosmos.ContainerClient, *heldContext, chan heldAnswer) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	fillBlog(t, c, "p", 1000)
	ctx := &heldContext{Context: context.Background(), held: make(chan struct{}), resume: make(chan struct{})}
	done := make(chan heldAnswer, 1)
	h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Documentdb-Query": {"true"}, "X-Ms-Documentdb-Partitionkey": {`["p"]`}}
	req := signed(t, "POST", "/dbs/db/colls/c/docs", h, []byte(`{"query":"SELECT VALUE c.id FROM c ORDER BY c.name"}`)).WithContext(ctx)
	go func() {
		var a heldAnswer
		res, err := e.Do(req)
		if a.err = err; err == nil {
			var page struct{ Documents []string }
			a.err = json.NewDecoder(res.Body).Decode(&page)
			a.rows = len(page.Documents)
		}
		done <- a
	}()
	select {
	case <-ctx.held:
	case <-time.After(time.Minute):
		t.Fatal("the query does not ask whether its client is gone")
	}
	return e, c, ctx, done
}

// TestNobodyWaitsForAQuery: a container is split, changed and dropped while a query
// reads it, and the query sees what was there when it began.
func TestNobodyWaitsForAQuery(t *testing.T) {
	e, c, held, done := heldQuery(t)
	changed := make(chan error, 1)
	go func() {
		ctx := context.Background()
		_, replaced := c.Replace(ctx, azcosmos.ContainerProperties{ID: "c", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, IndexingPolicy: blogPolicy()}, nil)
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

// TestCanceledQueryStops does not look at all items for a client that is gone.
func TestCanceledQueryStops(t *testing.T) {
	_, _, held, done := heldQuery(t)
	held.canceled.Store(true)
	close(held.resume)
	if a := <-done; a.rows > 0 {
		t.Errorf("%d rows, %v", a.rows, a.err)
	}
	if n := held.asked.Load(); n > 15 {
		t.Errorf("asked %d times whether the client is gone", n)
	}
}
