package emulator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

func statuses(out azcosmos.TransactionalBatchResponse) (s []int) {
	for _, r := range out.OperationResults {
		s = append(s, int(r.StatusCode))
	}
	return s
}

func TestBatch(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	mustCreate(t, c, "a", `{"id":"post","pk":"a","likes":0}`)

	t.Run("later operations see earlier ones", func(t *testing.T) {
		b := c.NewTransactionalBatch(pk("a"))
		b.CreateItem([]byte(`{"id":"like","pk":"a"}`), nil)
		b.PatchItem("post", patchOf("/likes", 1), nil)
		b.PatchItem("post", patchOf("/likes", 1), nil)
		b.ReadItem("post", nil)
		b.DeleteItem("like", nil)
		b.CreateItem([]byte(`{"id":"like","pk":"a","again":true}`), nil)
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err != nil || !out.Success || out.SessionToken != "0:-1#2" {
			t.Fatalf("%+v %v", out, err)
		}
		if d := cmp.Diff([]int{201, 200, 200, 200, 204, 201}, statuses(out)); d != "" {
			t.Error(d)
		}
		if !strings.Contains(string(out.OperationResults[3].ResourceBody), `"likes":2,`) {
			t.Errorf("%s", out.OperationResults[3].ResourceBody)
		}
		var sum float32
		for _, r := range out.OperationResults {
			sum += r.RequestCharge
		}
		if d := sum - out.RequestCharge; d > 0.05 || d < -0.05 {
			t.Errorf("charge %v, operations %v", out.RequestCharge, sum)
		}
		if got := queryAll(t, c, "SELECT VALUE c.again FROM c WHERE c.id = 'like'", pk("a"), nil); len(got) != 1 {
			t.Errorf("recreated item: got %q, want one row", got)
		}
	})
	t.Run("one failure -> nothing is written", func(t *testing.T) {
		before := changes(t, c, nil)
		b := c.NewTransactionalBatch(pk("a"))
		b.CreateItem([]byte(`{"id":"new","pk":"a"}`), nil)
		b.PatchItem("post", patchOf("/likes", 100), nil)
		b.CreateItem([]byte(`{"id":"post","pk":"a"}`), nil)
		b.DeleteItem("post", nil)
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err != nil || out.Success || out.RawResponse.StatusCode != http.StatusMultiStatus {
			t.Fatalf("%+v %v", out, err)
		}
		if d := cmp.Diff([]int{424, 424, 409, 424}, statuses(out)); d != "" {
			t.Error(d)
		}
		_, err = c.ReadItem(ctx, pk("a"), "new", nil)
		wantStatus(t, err, 404, "")
		if d := cmp.Diff(before, changes(t, c, nil)); d != "" {
			t.Error(d)
		}
	})
	for _, one := range []struct {
		name string
		add  func(b *azcosmos.TransactionalBatch)
		want []int
	}{
		{"stale etag -> 412", func(b *azcosmos.TransactionalBatch) {
			stale := azcore.ETag(`"stale"`)
			b.PatchItem("post", patchOf("/likes", 1), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &stale})
		}, []int{412}},
		{"item of another partition -> 400", func(b *azcosmos.TransactionalBatch) {
			b.CreateItem([]byte(`{"id":"x","pk":"b"}`), nil)
		}, []int{400}},
		{"missing item -> 404", func(b *azcosmos.TransactionalBatch) {
			b.CreateItem([]byte(`{"id":"x","pk":"a"}`), nil)
			b.DeleteItem("nothing", nil)
		}, []int{424, 404}},
		{"false condition -> 412", func(b *azcosmos.TransactionalBatch) {
			ops := patchOf("/likes", 1)
			ops.SetCondition("from c where c.likes = 1000")
			b.PatchItem("post", ops, nil)
		}, []int{412}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := c.NewTransactionalBatch(pk("a"))
			one.add(&b)
			out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			if err != nil || out.Success {
				t.Fatalf("%+v %v", out, err)
			}
			if d := cmp.Diff(one.want, statuses(out)); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("limits", func(t *testing.T) {
		b := c.NewTransactionalBatch(pk("a"))
		for i := range 100 {
			b.CreateItem(fmt.Appendf(nil, `{"id":"n%d","pk":"a","x":1}`, i), nil)
		}
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err != nil || !out.Success {
			t.Fatal(err)
		}
		b.CreateItem([]byte(`{"id":"one more","pk":"a"}`), nil)
		_, err = c.ExecuteTransactionalBatch(ctx, b, nil)
		wantStatus(t, err, 400, "")
		b = c.NewTransactionalBatch(pk("a"))
		for i := range 3 {
			b.CreateItem(fmt.Appendf(nil, `{"id":"big%d","pk":"a","x":%q}`, i, strings.Repeat("x", 1<<20)), nil)
		}
		_, err = c.ExecuteTransactionalBatch(ctx, b, nil)
		wantStatus(t, err, 413, "")
	})
	t.Run("over maxBatchWritten -> 413, nothing is written", func(t *testing.T) {
		mustCreate(t, c, "a", `{"id":"large","pk":"a","n":0,"x":"`+strings.Repeat("x", maxBatchWritten/20)+`"}`)
		b := c.NewTransactionalBatch(pk("a"))
		for range 19 {
			b.PatchItem("large", patchOf("/n", 1), nil)
		}
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err != nil || !out.Success {
			t.Fatal(err, statuses(out))
		}
		for range 2 {
			b.PatchItem("large", patchOf("/n", 1), nil)
		}
		out, err = c.ExecuteTransactionalBatch(ctx, b, nil)
		if got := statuses(out); err != nil || out.Success || got[18] != 424 || got[19] != 413 || got[20] != 424 {
			t.Error(err, got)
		}
		if got := queryAll(t, c, "SELECT VALUE c.n FROM c WHERE c.id = 'large'", pk("a"), nil); len(got) != 1 ||
			got[0] != "19" {
			t.Errorf("n: got %q, want 19", got)
		}
	})
}

func TestParseBatch(t *testing.T) {
	got, err := parseBatch([]byte(` [ {"operationType":"Create", "resourceBody": {"id": "1"} , "more":[{}]},
		{"\u0069d":"x\"\u00e9","operationType":"Patch","ifMatch":"\"e\"","minimalReturnPreference":true,"partitionKey":null}]	`))
	want := []batchOp{
		{kind: "Create", body: []byte(`{"id": "1"}`)},
		{kind: "Patch", id: `x"é`, ifMatch: `"e"`, minimal: true},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(batchOp{})); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range []string{``, ` `, `{}`, `[]`, `[1]`, `[null]`, `[[]]`, `[{}`, `[{}]]`, `"[{}]"`, `[{"id":1}]`,
		`[{"minimalReturnPreference":1}]`, `[{"resourceBody":}]`, `[{"a":tru}]`, "[{}]\v", "\u00a0[{}]"} {
		if got, err := parseBatch([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// TestBatch_MissingBody: an invalid operation fails when it runs.
func TestBatch_MissingBody(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for _, kind := range []string{"Create", "Upsert", "Replace", "Patch", "Nothing", ""} {
		r := signed(t, "POST", "/dbs/db/colls/c/docs",
			http.Header{"X-Ms-Cosmos-Is-Batch-Request": {"true"}, "X-Ms-Documentdb-Partitionkey": {`["p"]`}},
			fmt.Appendf(nil, `[{"operationType":%q,"id":"1"}]`, kind))
		res, err := e.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusMultiStatus || !strings.Contains(string(body), `"statusCode":400`) ||
			err != nil {
			t.Errorf("%s: got %d %s, want 207 with an operation of 400: %v", kind, res.StatusCode, body, err)
		}
	}
}
