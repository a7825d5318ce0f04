package emulator

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/store/emulator/internal/layout"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// lagging returns an engine whose replica never catches up during a test, and a container with the item "old" in the
// partition "p".
func lagging(t *testing.T) (*Engine, *azcosmos.ContainerClient) {
	t.Helper()
	e := newEngine(t, Options{ReplicaLag: time.Hour})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	create(t, c, "old")
	e.replica.catchUp()
	return e, c
}

func create(t *testing.T, c *azcosmos.ContainerClient, id string) (session string) {
	t.Helper()
	r, err := c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":%q,"pk":"p","n":1}`, id), nil)
	if err != nil {
		t.Fatal(err)
	}
	return *r.SessionToken
}

// ids lists the ids of "p" under a session token.
func ids(t *testing.T, c *azcosmos.ContainerClient, session string) (ids, at string, err error) {
	t.Helper()
	o := &azcosmos.QueryOptions{}
	if session != "" {
		o.SessionToken = &session
	}
	r, err := c.NewQueryItemsPager("SELECT VALUE c.id FROM c", pk("p"), o).NextPage(t.Context())
	if err != nil {
		return "", "", err
	}
	var all []string
	for _, item := range r.Items {
		all = append(all, strings.Trim(string(item), `"`))
	}
	return strings.Join(all, " "), r.RawResponse.Header.Get("x-ms-session-token"), nil
}

// TestReplica_SessionToken: without a session token every kind of read sees the past state, and
// returns its token; with one, it sees at least that state.
func TestReplica_SessionToken(t *testing.T) {
	ctx := t.Context()
	e, c := lagging(t)
	before := "0:-1#1"
	after := create(t, c, "new")
	if _, err := c.PatchItem(ctx, pk("p"), "old", patchOf("/n", 2), nil); err != nil {
		t.Fatal(err)
	}

	t.Run("point read of a new item -> not found", func(t *testing.T) {
		_, err := c.ReadItem(ctx, pk("p"), "new", nil)
		wantStatus(t, err, http.StatusNotFound, "")
	})
	t.Run("point read of a changed item -> past state", func(t *testing.T) {
		for _, session := range []*string{nil, &before} {
			r, err := c.ReadItem(ctx, pk("p"), "old", &azcosmos.ItemOptions{SessionToken: session})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(r.Value), `"n":1`) || *r.SessionToken != before {
				t.Errorf("%s at %s", r.Value, *r.SessionToken)
			}
		}
	})
	t.Run("query -> past state", func(t *testing.T) {
		if got, at, err := ids(t, c, ""); got != "old" || at != before || err != nil {
			t.Errorf("%s at %s: %v", got, at, err)
		}
	})
	t.Run("change feed -> past state", func(t *testing.T) {
		r, err := c.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
		if err != nil || len(r.Items) != 1 || r.RawResponse.Header.Get("x-ms-session-token") != before {
			t.Errorf("%d documents: %v", len(r.Items), err)
		}
	})
	t.Run("with the token of the write -> refused once, then the newest", func(t *testing.T) {
		read := func() *http.Response {
			return do(t, e, http.MethodGet, "/dbs/db/colls/c/docs/old", "", "x-ms-documentdb-partitionkey", `["p"]`,
				"x-ms-session-token", after)
		}
		if r := read(); r.StatusCode != http.StatusNotFound || r.Header.Get("x-ms-substatus") != "1002" {
			t.Errorf("%s, substatus %s", r.Status, r.Header.Get("x-ms-substatus"))
		}
		if r := read(); r.StatusCode != http.StatusOK || r.Header.Get("x-ms-session-token") != "0:-1#3" {
			t.Errorf("%s at %s", r.Status, r.Header.Get("x-ms-session-token"))
		}
		// azcosmos retries once.
		o := &azcosmos.ItemOptions{SessionToken: &after}
		if r, err := c.ReadItem(ctx, pk("p"), "old", o); err != nil || !strings.Contains(string(r.Value), `"n":3`) {
			t.Errorf("%s: %v", r.Value, err)
		}
		if got, at, err := ids(t, c, after); got != "new old" || at != "0:-1#3" || err != nil {
			t.Errorf("%s at %s: %v", got, at, err)
		}
	})
	t.Run("with the token of another range -> past state", func(t *testing.T) {
		if got, _, err := ids(t, c, "7:-1#99"); got != "old" || err != nil {
			t.Errorf("%s: %v", got, err)
		}
	})
	t.Run("after a split -> earlier writes visible, later ones lag", func(t *testing.T) {
		if err := e.Split("db", "c", "0"); err != nil {
			t.Fatal(err)
		}
		if got, _, err := ids(t, c, ""); got != "new old" || err != nil {
			t.Errorf("%s: %v", got, err)
		}
		newest := create(t, c, "newest")
		if got, _, err := ids(t, c, ""); got != "new old" || err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if got, _, err := ids(t, c, "0:-1#1,"+newest); got != "new newest old" || err != nil {
			t.Errorf("%s: %v", got, err)
		}
	})
}

// TestReplica_Advances: a write becomes visible once the lag has passed. The number of snapshots is
// bounded.
func TestReplica_Advances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Options{ReplicaLag: 20 * time.Millisecond})
		c := newContainer(t, e, azcosmos.ContainerProperties{})
		wrote := time.Now()
		create(t, c, "new")
		for shown := false; !shown; <-time.After(time.Millisecond) {
			_, err := c.ReadItem(context.Background(), pk("p"), "new", nil)
			shown = err == nil
			if took := time.Since(wrote); shown && took < e.replica.lag || took > 2*e.replica.lag {
				t.Fatalf("shown %t after %v", shown, took)
			}
		}
		e.replica.mu.RLock()
		defer e.replica.mu.RUnlock()
		if n := len(e.replica.states); n > replicaSteps+2 {
			t.Errorf("%d snapshots", n)
		}
	})
}

// TestReplica_ChangeFeed: large items, which change feed entries do not carry, are in their past state.
func TestReplica_ChangeFeed(t *testing.T) {
	e, c := lagging(t)
	text := strings.Repeat("x", 2*layout.MaxInlineRecord)
	put := func(id string, n int) {
		t.Helper()
		if _, err := c.UpsertItem(t.Context(), pk("p"),
			fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d,"t":%q}`, id, n, text), nil); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(id string) {
		t.Helper()
		if _, err := c.DeleteItem(t.Context(), pk("p"), id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"unchanged", "patched", "deleted", "recreated"} {
		put(id, 1)
	}
	e.replica.catchUp()
	if _, err := c.PatchItem(t.Context(), pk("p"), "patched", patchOf("/n", 2), nil); err != nil {
		t.Fatal(err)
	}
	remove("deleted")
	remove("recreated")
	put("recreated", 3)
	r, err := c.ReadChangeFeed(t.Context(),
		&azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
	if err != nil || len(r.Items) != 5 { // with old
		t.Fatalf("%d items, %v", len(r.Items), err)
	}
	for _, item := range r.Items {
		if !strings.Contains(string(item), `"n":1`) {
			t.Errorf("newer than the replica: %s", strings.ReplaceAll(string(item), text, "..."))
		}
	}
}

// TestSessionToken_Query: the token is that of the state that the response shows, so that caches know
// which writes it lacks.
func TestSessionToken_Query(t *testing.T) {
	_, c, held, done := heldQuery(t)
	mustCreate(t, c, "p", `{"id":"new","pk":"p","name":"new"}`)
	close(held.resume)
	if a := <-done; a.err != nil || a.rows != 1000 || a.session != "0:-1#20" {
		t.Errorf("%d rows at %s, %v", a.rows, a.session, a.err)
	}
}

// TestSessionToken_PointRead: one item is created at odd LSNs and deleted at even ones.
func TestSessionToken_PointRead(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{NoSync: true})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			_, err := c.CreateItem(context.Background(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil)
			if err == nil {
				_, err = c.DeleteItem(context.Background(), pk("p"), "1", nil)
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	read := signed(t, "GET", "/dbs/db/colls/c/docs/1", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil)
	var last uint64
	for range 5_000 {
		res, err := e.Do(read)
		if err != nil {
			t.Fatal(err)
		}
		lsn, err := strconv.ParseUint(strings.TrimPrefix(res.Header.Get("X-Ms-Session-Token"), "0:-1#"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		// An item found at an even LSN would be newer than that: it was created at the next one.
		if found := res.StatusCode == http.StatusOK; found && lsn%2 == 0 || lsn < last {
			t.Fatalf("%s at %d, after %d", res.Status, lsn, last)
		}
		last = lsn
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestSessionToken_SeveralPartitions: a page over several physical partitions is refused if the
// token is ahead of one of them.
func TestSessionToken_SeveralPartitions(t *testing.T) {
	e := newEngine(t, Options{Partitions: 2})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for text, read := range map[string]string{
		"SELECT * FROM c WHERE c.pk IN ('a', 'b', 'c') AND c.id = '1'": "01",
		"SELECT * FROM c WHERE c.x > 1":                                "01",
		"SELECT * FROM c":                                              "0", // its first page
	} {
		for _, id := range []string{"0", "1"} {
			res := do(t, e, "POST", "/dbs/db/colls/c/docs", `{"query":"`+text+`"}`, "Content-Type",
				"application/query+json",
				"x-ms-documentdb-query-enablecrosspartition", "true", "x-ms-session-token", id+":-1#9")
			refused := res.StatusCode == http.StatusNotFound && res.Header.Get("x-ms-substatus") == "1002"
			if refused != strings.Contains(read, id) {
				t.Errorf("%s with a token ahead of %s: %s", text, id, res.Status)
			}
		}
	}
}
