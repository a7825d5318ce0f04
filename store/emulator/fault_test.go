package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

func TestInject_ByOperation(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	doc := []byte(`{"id":"1","pk":"p","n":1}`)
	calls := []struct {
		kind Kind
		item string
		call func() error
	}{
		{Create, "", func() error { _, err := c.CreateItem(ctx, pk("p"), doc, nil); return err }},
		{Read, "1", func() error { _, err := c.ReadItem(ctx, pk("p"), "1", nil); return err }},
		{Upsert, "", func() error { _, err := c.UpsertItem(ctx, pk("p"), doc, nil); return err }},
		{Replace, "1", func() error { _, err := c.ReplaceItem(ctx, pk("p"), "1", doc, nil); return err }},
		{Patch, "1", func() error { _, err := c.PatchItem(ctx, pk("p"), "1", patchOf("/n", 1), nil); return err }},
		{Query, "", func() error {
			_, err := c.NewQueryItemsPager("SELECT * FROM c", pk("p"), nil).NextPage(ctx)
			return err
		}},
		{ChangeFeed, "", func() error {
			_, err := c.ReadChangeFeed(ctx,
				&azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return err
		}},
		{Batch, "", func() error {
			b := c.NewTransactionalBatch(pk("p"))
			b.ReadItem("1", nil)
			_, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			return err
		}},
		{Metadata, "", func() error { _, err := c.Read(ctx, nil); return err }},
		{Delete, "1", func() error { _, err := c.DeleteItem(ctx, pk("p"), "1", nil); return err }},
	}
	for _, one := range calls {
		for _, status := range []int{http.StatusTooManyRequests, 449, http.StatusServiceUnavailable} {
			e.Inject(func(o Operation) Fault {
				if o.Kind == Metadata && one.kind != Metadata {
					return Fault{}
				}
				partition := ""
				if one.kind != Metadata && one.kind != ChangeFeed {
					partition = `["p"]`
				}
				if want := (Operation{one.kind, "db", "c", one.item, partition, accountRegion}); o != want {
					t.Errorf("%s: injected into %+v", one.kind, o)
				}
				return Fault{Status: status}
			})
			if err := one.call(); statusOf(err) != status {
				t.Errorf("%s: %v, want %d", one.kind, err, status)
			}
		}
		e.Inject(nil)
		if err := one.call(); err != nil {
			t.Errorf("%s: %v after the fault", one.kind, err)
		}
	}
}

// TestInject_BatchOperation: one operation fails with its own retry-after, and nothing of a
// transactional batch is written.
func TestInject_BatchOperation(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	e.Inject(func(o Operation) Fault {
		if o.Kind != Batch {
			return Fault{}
		}
		return Fault{BatchStatus: http.StatusTooManyRequests, BatchOperation: 1, RetryAfter: 7 * time.Second}
	})
	type result struct {
		StatusCode             int
		SubStatusCode          int
		RetryAfterMilliseconds int
	}
	for name, c := range map[string]struct {
		key    string
		header []string
		want   []result
		kept   string
	}{
		"transactional -> nothing is written": {"p", []string{"x-ms-cosmos-batch-atomic", "True"},
			[]result{{424, 0, 0}, {429, 3200, 7000}, {424, 0, 0}}, ""},
		"bulk -> the others are written": {"q",
			[]string{"x-ms-cosmos-batch-atomic", "False", "x-ms-cosmos-batch-continue-on-error", "True"},
			[]result{{201, 0, 0}, {429, 3200, 7000}, {201, 0, 0}}, "0 2"},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.ReplaceAll(
				`[{"operationType":"Create","resourceBody":{"id":"0","pk":"p"}},{"operationType":"Create","resourceBody":{"id":"1","pk":"p"}},{"operationType":"Create","resourceBody":{"id":"2","pk":"p"}}]`, `"pk":"p"`, `"pk":"`+c.key+`"`)
			res := do(t, e, http.MethodPost, "/dbs/db/colls/c/docs", body,
				append(c.header, "x-ms-cosmos-is-batch-request", "True", "x-ms-documentdb-partitionkey",
					`["`+c.key+`"]`)...)
			var got []result
			if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || res.StatusCode != http.StatusMultiStatus {
				t.Errorf("%s, %s", res.Status, diff)
			}
			var kept []string
			for _, id := range []string{"0", "1", "2"} {
				if do(t, e, http.MethodGet, "/dbs/db/colls/c/docs/"+id, "", "x-ms-documentdb-partitionkey",
					`["`+c.key+`"]`).StatusCode == http.StatusOK {
					kept = append(kept, id)
				}
			}
			if got := strings.Join(kept, " "); got != c.kept {
				t.Errorf("written: %q, want %q", got, c.kept)
			}
		})
	}
}

func TestInject_Connection(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	server := httptest.NewServer(e)
	defer server.Close()
	create := func(id string) *http.Request {
		r := signed(t, http.MethodPost, "/dbs/db/colls/c/docs", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
			[]byte(`{"id":"`+id+`","pk":"p"}`))
		r.URL.Host = strings.TrimPrefix(server.URL, "http://")
		return r
	}
	exists := func(id string) bool {
		res := do(t, e, http.MethodGet, "/dbs/db/colls/c/docs/"+id, "", "x-ms-documentdb-partitionkey", `["p"]`)
		return res.StatusCode == http.StatusOK
	}
	only := func(f Fault) {
		e.Inject(func(o Operation) Fault {
			if o.Kind == Create {
				return f
			}
			return Fault{}
		})
	}
	t.Run("dropped before serving -> not written", func(t *testing.T) {
		only(Fault{Drop: true})
		if res, err := server.Client().Do(create("a")); err == nil {
			t.Errorf("got status %d, want a broken connection", res.StatusCode)
		}
		if res, err := e.Do(create("a")); err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Error("in process: want status 503, error:", err)
		}
		if exists("a") {
			t.Error("the item was written")
		}
	})
	t.Run("dropped after serving -> written", func(t *testing.T) {
		only(Fault{DropResponse: true})
		if res, err := server.Client().Do(create("b")); err == nil {
			t.Errorf("got status %d, want a broken connection", res.StatusCode)
		}
		if res, err := e.Do(create("c")); err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Error("in process: want status 503, error:", err)
		}
		if !exists("b") || !exists("c") {
			t.Error("the items were not written")
		}
	})
	t.Run("latency and slow bodies", func(t *testing.T) {
		for name, send := range map[string]func(*http.Request) (*http.Response, error){"network": server.Client().Do,
			"in process": e.Do} {
			only(Fault{Latency: 30 * time.Millisecond, SlowBody: 40 * time.Millisecond})
			began := time.Now()
			res, err := send(create("slow " + name))
			if err != nil {
				t.Fatal(err)
			}
			headers := time.Since(began)
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if took := time.Since(began); err != nil || headers < 30*time.Millisecond || took < 65*time.Millisecond ||
				len(body) == 0 {
				t.Errorf("%s: headers after %v, all after %v, %v", name, headers, took, err)
			}
		}
	})
	t.Run("latency beyond the client's timeout -> deadline exceeded", func(t *testing.T) {
		only(Fault{Latency: time.Hour})
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := e.Do(create("d").WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestServeHTTP_ClientGone: a client that has closed its side of the connection gets no response,
// rather than an empty 200.
func TestServeHTTP_ClientGone(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	e.Inject(func(Operation) Fault { return Fault{Latency: time.Hour} })
	server := httptest.NewServer(e)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := signed(t, http.MethodGet, "/dbs/db/colls/c/docs/1", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
		nil)
	r.Body, r.ContentLength = nil, 0
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v, want no response", got, err)
	}
}

// TestInject_Throttled: azcosmos retries an injected 429.
func TestInject_Throttled(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	_ = c
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(e.Endpoint(), cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: e, Retry: policy.RetryOptions{MaxRetries: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	retrying, err := client.NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	e.Inject(func(o Operation) Fault {
		if o.Kind != Create {
			return Fault{}
		}
		if times++; times <= 2 {
			return Fault{Status: http.StatusTooManyRequests}
		}
		return Fault{}
	})
	if _, err := retrying.CreateItem(context.Background(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil); err != nil ||
		times != 3 {
		t.Errorf("%d attempts, want 3: %v", times, err)
	}
}
