package emulator

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/store/emulator/internal/layout"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

type change struct {
	ID  string
	N   int
	LSN int `json:"_lsn"`
}

// changes drains the change feed.
func changes(t testing.TB, c *azcosmos.ContainerClient, o *azcosmos.ChangeFeedOptions) []change {
	t.Helper()
	if o == nil {
		o = &azcosmos.ChangeFeedOptions{}
	}
	all := []change{}
	opt := *o
	if opt.FeedRange == nil {
		opt.FeedRange = &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	}
	for {
		res, err := c.ReadChangeFeed(context.Background(), &opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range res.Items {
			var one change
			mustUnmarshal(t, i, &one)
			all = append(all, one)
		}
		if res.Count == 0 {
			return all
		}
		opt.Continuation = &res.ContinuationToken
	}
}

func TestChangeFeed(t *testing.T) {
	ctx := context.Background()
	clock := newFakeClock()
	c := newContainer(t, newEngine(t, Options{Clock: clock.Now}), azcosmos.ContainerProperties{})
	if got := changes(t, c, nil); len(got) != 0 {
		t.Fatalf("empty container: got %v, want no changes", got)
	}
	mustCreate(t, c, "a", `{"id":"1","pk":"a","n":1}`)
	mustCreate(t, c, "b", `{"id":"2","pk":"b","n":1}`)
	mustCreate(t, c, "a", `{"id":"3","pk":"a","n":1}`)
	t.Run("latest version, in order of writing", func(t *testing.T) {
		if _, err := c.PatchItem(ctx, pk("a"), "1", patchOf("/n", 1), nil); err != nil {
			t.Fatal(err)
		}
		want := []change{{"2", 1, 2}, {"3", 1, 3}, {"1", 2, 4}}
		if d := cmp.Diff(want, changes(t, c, nil)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want, changes(t, c, &azcosmos.ChangeFeedOptions{MaxItemCount: 1})); d != "" {
			t.Error(d)
		}
	})
	t.Run("one logical partition", func(t *testing.T) {
		a := pk("a")
		if d := cmp.Diff([]change{{"3", 1, 3}, {"1", 2, 4}},
			changes(t, c, &azcosmos.ChangeFeedOptions{PartitionKey: &a})); d != "" {
			t.Error(d)
		}
	})
	t.Run("nothing new -> 304 with the position", func(t *testing.T) {
		o := &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}}
		res, err := c.ReadChangeFeed(ctx, o)
		if err != nil || res.Count != 3 {
			t.Fatal(err)
		}
		o.Continuation = &res.ContinuationToken
		res, err = c.ReadChangeFeed(ctx, o)
		if err != nil || res.RawResponse.StatusCode != http.StatusNotModified || res.ETag != `"4"` ||
			!strings.Contains(res.ContinuationToken, `\"4\"`) {
			t.Errorf("%v %q %s %v", res.RawResponse.StatusCode, res.ETag, res.ContinuationToken, err)
		}
		mustCreate(t, c, "c", `{"id":"4","pk":"c","n":1}`)
		o.Continuation = &res.ContinuationToken
		res, err = c.ReadChangeFeed(ctx, o)
		if err != nil || res.Count != 1 {
			t.Errorf("%d %v", res.Count, err)
		}
	})
	t.Run("deletes are not shown", func(t *testing.T) {
		if _, err := c.DeleteItem(ctx, pk("b"), "2", nil); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]change{{"3", 1, 3}, {"1", 2, 4}, {"4", 1, 5}}, changes(t, c, nil)); d != "" {
			t.Error(d)
		}
	})
	t.Run("one transaction is on one page", func(t *testing.T) {
		b := c.NewTransactionalBatch(pk("t"))
		for i := range 5 {
			b.CreateItem(fmt.Appendf(nil, `{"id":"t%d","pk":"t","n":1}`, i), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
			t.Fatal(err)
		}
		key := pk("t")
		res, err := c.ReadChangeFeed(ctx,
			&azcosmos.ChangeFeedOptions{MaxItemCount: 2, PartitionKey: &key,
				FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
		if err != nil || res.Count != 5 {
			t.Errorf("%d items on the page, %v", res.Count, err)
		}
	})
	t.Run("from a time", func(t *testing.T) {
		clock.now = clock.now.Add(time.Minute)
		from := clock.now
		if got := changes(t, c, &azcosmos.ChangeFeedOptions{StartFrom: &from}); len(got) != 0 {
			t.Errorf("from now: got %v, want no changes", got)
		}
		mustCreate(t, c, "z", `{"id":"later","pk":"z","n":1}`)
		clock.now = clock.now.Add(time.Minute)
		mustCreate(t, c, "z", `{"id":"much later","pk":"z","n":1}`)
		got := changes(t, c, &azcosmos.ChangeFeedOptions{StartFrom: &from, MaxItemCount: 1})
		if len(got) != 2 || got[0].ID != "later" {
			t.Errorf("got %v, want later and much later", got)
		}
		from = clock.now
		if got := changes(t, c, &azcosmos.ChangeFeedOptions{StartFrom: &from}); len(got) != 1 ||
			got[0].ID != "much later" {
			t.Errorf("got %v, want much later", got)
		}
	})
}

// TestChangeFeed_ConcurrentWrites reads the feed page by page during writes: every write must appear at
// its position or be superseded.
func TestChangeFeed_ConcurrentWrites(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() // with real syncs, so that writes complete out of order
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	const writers, writes = 8, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				doc := fmt.Appendf(nil, `{"id":"w%d-%d","pk":"%d","n":%d}`, w, i/2, w%3, i)
				if _, err := c.UpsertItem(ctx, pk(strconv.Itoa(w%3)), doc, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[string]int{}
	last := 0
	o := azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}, MaxItemCount: 3}
	for finished := false; ; {
		res, err := c.ReadChangeFeed(ctx, &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range res.Items {
			var one change
			mustUnmarshal(t, i, &one)
			if one.LSN < last {
				t.Errorf("%v comes after LSN %d", one, last)
			}
			last = one.LSN
			seen[one.ID] = one.N
		}
		o.Continuation = &res.ContinuationToken
		if res.Count == 0 && finished {
			break
		}
		select {
		case <-done:
			finished = true
		default:
		}
	}
	for w := range writers {
		for i := 1; i < writes; i += 2 {
			if id := fmt.Sprintf("w%d-%d", w, i/2); seen[id] != i {
				t.Errorf("%s: saw version %d, want %d", id, seen[id], i)
			}
		}
	}
}

// TestResponse_NotOverwritten: a response body does not change when its buffer is reused.
func TestResponse_NotOverwritten(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i := range 200 {
		id := fmt.Sprintf("%04d", i)
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":%q,"pk":"p","text":%q}`, id, strings.Repeat(id, 1000)))
	}
	feed := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}}
	query := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Documentdb-Query": {"True"},
		"Content-Type": {"application/query+json"}}
	type body struct{ held, copied []byte }
	var bodies []body
	largest := 0
	for i := range 60 {
		for method, header := range map[string]http.Header{http.MethodGet: feed, http.MethodPost: query} {
			header.Set("X-Ms-Max-Item-Count", []string{"1", "1000", "10", "60", "100"}[i%5])
			text := ""
			if method == http.MethodPost {
				text = fmt.Sprintf(`{"query":"SELECT * FROM c WHERE c.id >= '%04d'"}`, i)
			}
			r, err := e.Do(signed(t, method, "/dbs/db/colls/c/docs", header, []byte(text)))
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatal(r.StatusCode, err)
			}
			held := r.Body.(bufferedBody).Bytes()
			bodies = append(bodies, body{held, bytes.Clone(held)})
			largest = max(largest, len(held))
		}
	}
	for i, b := range bodies {
		if !bytes.Equal(b.held, b.copied) {
			t.Fatalf("body %d has changed", i)
		}
	}
	if largest <= layout.ScratchKept {
		t.Errorf("the largest body has %d bytes, want more than %d", largest, layout.ScratchKept)
	}
}

// TestResponse_SmallPages: the body of a small page takes no more memory than it needs.
func TestResponse_SmallPages(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "lone", `{"id":"1","pk":"lone"}`)
	for i := range 1000 {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p"}`, i))
	}
	h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkey": {`["lone"]`},
		"X-Ms-Max-Item-Count": {"-1"}}
	for range 3 {
		r, err := e.Do(signed(t, http.MethodGet, "/dbs/db/colls/c/docs", h, nil))
		if err != nil {
			t.Fatal(err)
		}
		if b := r.Body.(bufferedBody).Bytes(); len(b) == 0 || cap(b) > 4<<10 {
			t.Errorf("a body of %d bytes has a capacity of %d", len(b), cap(b))
		}
	}
}
