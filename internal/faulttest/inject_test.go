package faulttest_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newContainer returns a container of an engine behind an Injector.
func newContainer(t *testing.T, maxRetries int32) (*azcosmos.ContainerClient, *faulttest.Injector) {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	key, err := azcosmos.NewKeyCredential(testkit.Secret(emulator.WellKnownKey))
	if err != nil {
		t.Fatal(err)
	}
	faults := &faulttest.Injector{To: engine}
	client, err := azcosmos.NewClientWithKey(engine.Endpoint(), key, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: faults, Retry: policy.RetryOptions{MaxRetries: maxRetries}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	_, err = client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "db"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := client.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "c",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}}, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer("c")
	if err != nil {
		t.Fatal(err)
	}
	return c, faults
}

func statusOf(err error) int {
	var response *azcore.ResponseError
	if errors.As(err, &response) {
		return response.StatusCode
	}
	return 0
}

var pk = azcosmos.NewPartitionKeyString("p")

const item = `{"id":"1","pk":"p","n":1}`

// TestInjector_Operations: each kind of operation is described to the function, fails with its response, and succeeds
// without it.
func TestInjector_Operations(t *testing.T) {
	c, faults := newContainer(t, -1)
	ctx := t.Context()
	for _, one := range []struct {
		kind      faulttest.Kind
		partition string
		call      func() error
	}{
		{faulttest.Create, `["p"]`, func() error { _, err := c.CreateItem(ctx, pk, []byte(item), nil); return err }},
		{faulttest.Read, `["p"]`, func() error { _, err := c.ReadItem(ctx, pk, "1", nil); return err }},
		{faulttest.Upsert, `["p"]`, func() error { _, err := c.UpsertItem(ctx, pk, []byte(item), nil); return err }},
		{faulttest.Replace, `["p"]`, func() error {
			_, err := c.ReplaceItem(ctx, pk, "1", []byte(item), nil)
			return err
		}},
		{faulttest.Patch, `["p"]`, func() error {
			var patch azcosmos.PatchOperations
			patch.AppendSet("/n", 2)
			_, err := c.PatchItem(ctx, pk, "1", patch, nil)
			return err
		}},
		{faulttest.Query, `["p"]`, func() error {
			_, err := c.NewQueryItemsPager("SELECT * FROM c", pk, nil).NextPage(ctx)
			return err
		}},
		{faulttest.ChangeFeed, "", func() error {
			_, err := c.ReadChangeFeed(ctx,
				&azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return err
		}},
		{faulttest.Batch, `["p"]`, func() error {
			b := c.NewTransactionalBatch(pk)
			b.ReadItem("1", nil)
			_, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			return err
		}},
		{faulttest.Metadata, "", func() error { _, err := c.Read(ctx, nil); return err }},
		{faulttest.Delete, `["p"]`, func() error { _, err := c.DeleteItem(ctx, pk, "1", nil); return err }},
	} {
		t.Run(string(one.kind), func(t *testing.T) {
			for _, status := range []int{http.StatusTooManyRequests, 449, http.StatusServiceUnavailable} {
				faults.Inject(func(o faulttest.Operation) faulttest.Response {
					if o.Kind == faulttest.Metadata && one.kind != faulttest.Metadata {
						return faulttest.Response{} // the client looks up the container
					}
					want := faulttest.Operation{Kind: one.kind, Container: "c", Partition: one.partition}
					if o != want {
						t.Errorf("got %+v, want %+v", o, want)
					}
					return faulttest.Response{Status: status}
				})
				if err := one.call(); statusOf(err) != status {
					t.Errorf("got %v, want status %d", err, status)
				}
			}
			faults.Inject(nil)
			if err := one.call(); err != nil {
				t.Errorf("without a fault: %v", err)
			}
		})
	}
}

// TestInjector_InBatch: one operation of a batch fails, and nothing is written.
func TestInjector_InBatch(t *testing.T) {
	c, faults := newContainer(t, -1)
	inject := func(operation int) {
		faults.Inject(func(faulttest.Operation) faulttest.Response {
			return faulttest.Response{Status: http.StatusTooManyRequests, InBatch: true, Operation: operation}
		})
	}
	batch := func() azcosmos.TransactionalBatchResponse {
		t.Helper()
		b := c.NewTransactionalBatch(pk)
		for _, id := range []string{"0", "1", "2"} {
			b.CreateItem([]byte(`{"id":"`+id+`","pk":"p"}`), nil)
		}
		got, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	inject(1)
	got := batch()
	for i, want := range []int32{424, 429, 424} {
		if r := got.OperationResults[i]; r.StatusCode != want {
			t.Errorf("operation %d has status %d, want %d", i, r.StatusCode, want)
		}
	}
	if got.Success {
		t.Error("the batch succeeded")
	}
	if _, err := c.ReadItem(t.Context(), pk, "0", nil); statusOf(err) != http.StatusNotFound {
		t.Errorf("read of an item of the batch: got %v, want 404", err)
	}
	if inject(3); !batch().Success {
		t.Error("a batch without the operation failed")
	}
}

// TestInjector_Throttled: azcosmos repeats a request after a 429.
func TestInjector_Throttled(t *testing.T) {
	c, faults := newContainer(t, 3)
	times := 0
	faults.Inject(func(o faulttest.Operation) (f faulttest.Response) {
		if o.Kind == faulttest.Create {
			if times++; times <= 2 {
				f.Status = http.StatusTooManyRequests
			}
		}
		return f
	})
	if _, err := c.CreateItem(t.Context(), pk, []byte(item), nil); err != nil || times != 3 {
		t.Errorf("%d tries, want 3: %v", times, err)
	}
}

// TestInjector_Handler: the handler fails the same requests.
func TestInjector_Handler(t *testing.T) {
	var faults faulttest.Injector
	handler := faults.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	post := func() *http.Response {
		r := httptest.NewRequest(http.MethodPost, "/dbs/db/colls/c/docs", strings.NewReader(`[{"operationType":"Read"}]`))
		r.Header.Set("X-Ms-Cosmos-Is-Batch-Request", "True")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	var f faulttest.Response
	faults.Inject(func(faulttest.Operation) faulttest.Response { return f })
	for name, one := range map[string]struct {
		response faulttest.Response
		status   int
		body     string
	}{
		"none":          {faulttest.Response{}, http.StatusOK, `[{"operationType":"Read"}]`},
		"other batches": {faulttest.Response{Status: 404, InBatch: true, Operation: 1}, http.StatusOK, `[{"operationType":"Read"}]`},
		"operation":     {faulttest.Response{Status: 429, Substatus: 3200, RetryAfter: 7 * time.Second, InBatch: true}, http.StatusMultiStatus, `[{"statusCode":429,"subStatusCode":3200,"requestCharge":1,"retryAfterMilliseconds":7000}]`},
		"request":       {faulttest.Response{Status: 503}, http.StatusServiceUnavailable, `{"code":"Fault","message":"injected"}`},
	} {
		t.Run(name, func(t *testing.T) {
			f = one.response
			resp := post()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != one.status || string(body) != one.body {
				t.Errorf("got %s %s, %v, want %d %s", resp.Status, body, err, one.status, one.body)
			}
		})
	}
}
