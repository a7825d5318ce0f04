package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/sql"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

var withContent = &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}

func mustCreate(t testing.TB, c *azcosmos.ContainerClient, key, doc string) azcosmos.ItemResponse {
	t.Helper()
	res, err := c.CreateItem(context.Background(), pk(key), []byte(doc), withContent)
	if err != nil {
		t.Fatalf("create %s: %v", doc, err)
	}
	return res
}

func TestItems(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})

	res := mustCreate(t, c, "a", `{"id":"1", "n": 1.50, "pk":"a"}`)
	if !strings.HasPrefix(string(res.Value), `{"id":"1","n":1.50,"pk":"a","_rid":"`) {
		t.Errorf("member order or number format has changed: %s", res.Value)
	}
	if res.ETag == "" || *res.SessionToken != "0:-1#1" || res.RequestCharge == 0 || res.ActivityID == "" {
		t.Errorf("headers: %+v", res.Response)
	}
	t.Run("create twice -> conflict", func(t *testing.T) {
		_, err := c.CreateItem(ctx, pk("a"), []byte(`{"id":"1","pk":"a"}`), nil)
		wantStatus(t, err, 409, "")
	})
	t.Run("the same id in another partition is another item", func(t *testing.T) {
		mustCreate(t, c, "b", `{"id":"1","pk":"b","n":9}`)
		read, err := c.ReadItem(ctx, pk("a"), "1", nil)
		if err != nil || string(read.Value) != string(res.Value) || read.ETag != res.ETag {
			t.Errorf("read %s, wrote %s, %v", read.Value, res.Value, err)
		}
		_, err = c.ReadItem(ctx, pk("c"), "1", nil)
		wantStatus(t, err, 404, "")
	})
	t.Run("item of another partition -> mismatch", func(t *testing.T) {
		_, err := c.CreateItem(ctx, pk("a"), []byte(`{"id":"x","pk":"b"}`), nil)
		wantStatus(t, err, 400, "1001")
		_, err = c.ReplaceItem(ctx, pk("a"), "1", []byte(`{"id":"1","pk":"b"}`), nil)
		wantStatus(t, err, 400, "1001")
	})
	t.Run("minimal response has no body", func(t *testing.T) {
		res, err := c.UpsertItem(ctx, pk("a"), []byte(`{"id":"min","pk":"a"}`), nil)
		if err != nil || len(res.Value) != 0 || res.ETag == "" || res.RawResponse.StatusCode != 201 {
			t.Errorf("%q %v", res.Value, err)
		}
		res, err = c.UpsertItem(ctx, pk("a"), []byte(`{"id":"min","pk":"a"}`), nil)
		if err != nil || res.RawResponse.StatusCode != 200 {
			t.Errorf("%v %v", res.RawResponse, err)
		}
	})
	t.Run("stale etag -> precondition failed", func(t *testing.T) {
		stale := azcore.ETag(`"stale"`)
		o := &azcosmos.ItemOptions{IfMatchEtag: &stale}
		_, err := c.ReplaceItem(ctx, pk("a"), "1", []byte(`{"id":"1","pk":"a"}`), o)
		wantStatus(t, err, 412, "")
		_, err = c.UpsertItem(ctx, pk("a"), []byte(`{"id":"1","pk":"a"}`), o)
		wantStatus(t, err, 412, "")
		_, err = c.PatchItem(ctx, pk("a"), "1", patchOf("/n", 1), o)
		wantStatus(t, err, 412, "")
		_, err = c.DeleteItem(ctx, pk("a"), "1", o)
		wantStatus(t, err, 412, "")
		if _, err = c.UpsertItem(ctx, pk("a"), []byte(`{"id":"not there","pk":"a"}`), o); err != nil {
			t.Errorf("upsert of a new item with If-Match: %v", err)
		}
	})
	t.Run("etag changes with every write", func(t *testing.T) {
		seen := map[azcore.ETag]bool{}
		for range 5 {
			r, err := c.UpsertItem(ctx, pk("a"), []byte(`{"id":"e","pk":"a"}`), nil)
			if err != nil || seen[r.ETag] {
				t.Fatalf("ETag %v is repeated, or an error: %v", r.ETag, err)
			}
			seen[r.ETag] = true
		}
	})
	t.Run("missing item -> not found", func(t *testing.T) {
		_, err := c.ReadItem(ctx, pk("a"), "nothing", nil)
		wantStatus(t, err, 404, "")
		_, err = c.ReplaceItem(ctx, pk("a"), "nothing", []byte(`{"id":"nothing","pk":"a"}`), nil)
		wantStatus(t, err, 404, "")
		_, err = c.PatchItem(ctx, pk("a"), "nothing", patchOf("/n", 1), nil)
		wantStatus(t, err, 404, "")
		_, err = c.DeleteItem(ctx, pk("a"), "nothing", nil)
		wantStatus(t, err, 404, "")
	})
	t.Run("too large -> 413", func(t *testing.T) {
		big := fmt.Sprintf(`{"id":"big","pk":"a","s":%q}`, strings.Repeat("x", maxItemBytes))
		_, err := c.CreateItem(ctx, pk("a"), []byte(big), nil)
		wantStatus(t, err, 413, "")
		_, err = c.CreateItem(ctx, pk("a"), []byte(strings.Repeat(big, 3)), nil)
		wantStatus(t, err, 413, "")
	})
	t.Run("invalid document -> bad request", func(t *testing.T) {
		for _, doc := range []string{`[]`, `"x"`, `{`, `{"id":7,"pk":"a"}`, `{"id":"","pk":"a"}`, `{"pk":"a"}`,
			"{\"id\":\"\xff\",\"pk\":\"a\"}",
			`{"id":"` + strings.Repeat("i", 1024) + `","pk":"a"}`,
			`{"id":"deep","pk":"a","d":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`} {
			if _, err := c.CreateItem(ctx, pk("a"), []byte(doc), nil); statusOf(err) != 400 {
				t.Errorf("%.40s: %v", doc, err)
			}
		}
	})
	t.Run("long values in an index", func(t *testing.T) {
		long := strings.Repeat("long", 100_000)
		mustCreate(t, c, "long", fmt.Sprintf(`{"id":"1","pk":"long","s":%q}`, long))
		mustCreate(t, c, "long", fmt.Sprintf(`{"id":"2","pk":"long","s":%q}`, long+"er"))
		got := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.s = @s", azcosmos.NewPartitionKey(),
			&azcosmos.QueryOptions{QueryParameters: params("@s", long)})
		if len(got) != 1 || got[0] != `"1"` {
			t.Errorf("got %q, want 1", got)
		}
		if _, err := c.DeleteItem(ctx, pk("long"), "1", nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("long partition key -> bad request", func(t *testing.T) {
		key := strings.Repeat("k", 2048+1)
		_, err := c.CreateItem(ctx, pk(key), fmt.Appendf(nil, `{"id":"1","pk":%q}`, key), nil)
		wantStatus(t, err, 400, "")
		mustCreate(t, c, key[1:], fmt.Sprintf(`{"id":"1","pk":%q}`, key[1:]))
	})
	t.Run("special characters in ids", func(t *testing.T) {
		for _, id := range []string{"a b", " lead", "q?=.:~+-@()^${}[]!_", "鱀", "a'b", "100%"} {
			doc, err := json.Marshal(map[string]string{"id": id, "pk": "ids"})
			if err != nil {
				t.Fatal(err)
			}
			mustCreate(t, c, "ids", string(doc))
			if _, err := c.ReadItem(ctx, pk("ids"), id, nil); err != nil {
				t.Errorf("%q: %v", id, err)
			}
			if _, err := c.DeleteItem(ctx, pk("ids"), id, nil); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

func patchOf(path string, by int64) azcosmos.PatchOperations {
	var ops azcosmos.PatchOperations
	ops.AppendIncrement(path, by)
	return ops
}

func TestPartitionKeyKinds(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for _, one := range []struct {
		key azcosmos.PartitionKey
		doc string
	}{
		{azcosmos.NullPartitionKey, `{"id":"1","pk":null}`},
		{azcosmos.NewPartitionKeyBool(true), `{"id":"1","pk":true}`},
		{azcosmos.NewPartitionKeyBool(false), `{"id":"1","pk":false}`},
		{azcosmos.NewPartitionKeyNumber(0), `{"id":"1","pk":-0.0}`},
		{azcosmos.NewPartitionKeyNumber(15), `{"id":"1","pk":1.5e1}`},
		{pk("15"), `{"id":"1","pk":"15"}`},
		{pk("ä\"\\"), `{"id":"1","pk":"ä\"\\"}`},
		{pk(""), `{"id":"1","pk":""}`},
	} {
		if _, err := c.CreateItem(ctx, one.key, []byte(one.doc), nil); err != nil {
			t.Errorf("%s: %v", one.doc, err)
		}
		res, err := c.ReadItem(ctx, one.key, "1", nil)
		if err != nil || !strings.HasPrefix(string(res.Value), one.doc[:len(one.doc)-1]) {
			t.Errorf("%s: %s %v", one.doc, res.Value, err)
		}
	}
	t.Run("undefined", func(t *testing.T) {
		h := func() map[string][]string { return map[string][]string{"X-Ms-Documentdb-Partitionkey": {"[{}]"}} }
		if res, err := e.Do(signed(t, "POST", "/dbs/db/colls/c/docs", h(), []byte(`{"id":"none"}`))); err != nil ||
			res.StatusCode != 201 {
			t.Fatal(res.StatusCode, err)
		}
		if res, err := e.Do(signed(t, "GET", "/dbs/db/colls/c/docs/none", h(), nil)); err != nil ||
			res.StatusCode != 200 {
			t.Fatal(res.StatusCode, err)
		}
	})
	t.Run("hierarchical", func(t *testing.T) {
		h := newContainer(t, e,
			azcosmos.ContainerProperties{ID: "h", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
				Paths: []string{"/tenant", "/user"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2}})
		for _, tenant := range []string{"t1", "t2"} {
			for _, user := range []string{"u1", "u2"} {
				key := azcosmos.NewPartitionKeyString(tenant).AppendString(user)
				if _, err := h.CreateItem(ctx, key, fmt.Appendf(nil, `{"id":"1","tenant":%q,"user":%q}`, tenant, user),
					nil); err != nil {
					t.Fatal(err)
				}
				if _, err := h.ReadItem(ctx, key, "1", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := h.ReadItem(ctx, pk("t1"), "1", nil); statusOf(err) != 400 || subStatusOf(err) != "1001" {
			t.Errorf("too few components: %v", err)
		}
		got := queryAll(t, h, "SELECT VALUE c.user FROM c", pk("t1"), nil)
		if len(got) != 2 {
			t.Errorf("prefix of the key: %q", got)
		}
		got = queryAll(t, h, "SELECT VALUE c.user FROM c WHERE c.tenant = 't2'", azcosmos.NewPartitionKey(), nil)
		if len(got) != 2 {
			t.Errorf("prefix in WHERE: %q", got)
		}
		got = queryAll(t, h, "SELECT VALUE c.tenant FROM c WHERE c.tenant = 't2' AND c.user = 'u1' ORDER BY c.id",
			azcosmos.NewPartitionKey(), nil)
		if len(got) != 1 {
			t.Errorf("whole key in WHERE: %q", got)
		}
	})
}

func TestSessionTokens(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	res := mustCreate(t, c, "a", `{"id":"1","pk":"a"}`)
	if _, err := c.ReadItem(ctx, pk("a"), "1", &azcosmos.ItemOptions{SessionToken: res.SessionToken}); err != nil {
		t.Fatal(err)
	}
	ahead := "0:-1#99"
	_, err := c.ReadItem(ctx, pk("a"), "1", &azcosmos.ItemOptions{SessionToken: &ahead})
	wantStatus(t, err, 404, "1002")
	_, err = c.NewQueryItemsPager("SELECT * FROM c", pk("a"),
		&azcosmos.QueryOptions{SessionToken: &ahead}).NextPage(ctx)
	wantStatus(t, err, 404, "1002")
	several := "7:-1#99,0:-1#1"
	if _, err := c.ReadItem(ctx, pk("a"), "1", &azcosmos.ItemOptions{SessionToken: &several}); err != nil {
		t.Errorf("token ahead of another range: %v", err)
	}
}

func TestUniqueKeys(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{
		UniqueKeyPolicy: &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/slug"}}}}})
	mustCreate(t, c, "a", `{"id":"1","pk":"a","slug":"x"}`)
	mustCreate(t, c, "b", `{"id":"1","pk":"b","slug":"x"}`)
	_, err := c.CreateItem(ctx, pk("a"), []byte(`{"id":"2","pk":"a","slug":"x"}`), nil)
	wantStatus(t, err, 409, "")
	b := c.NewTransactionalBatch(pk("a"))
	b.ReplaceItem("1", []byte(`{"id":"1","pk":"a","slug":"y"}`), nil)
	b.CreateItem([]byte(`{"id":"2","pk":"a","slug":"x"}`), nil)
	if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
		t.Errorf("unique value released earlier in the batch: %+v %v", out.OperationResults, err)
	}
	b = c.NewTransactionalBatch(pk("a"))
	b.CreateItem([]byte(`{"id":"3","pk":"a","slug":"z"}`), nil)
	b.CreateItem([]byte(`{"id":"4","pk":"a","slug":"z"}`), nil)
	if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || out.Success {
		t.Errorf("unique value used twice in the batch: %+v %v", out.OperationResults, err)
	}
}

func TestPatch_ConcurrentIncrements(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	mustCreate(t, c, "a", `{"id":"1","pk":"a","n":0}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if _, err := c.PatchItem(ctx, pk("a"), "1", patchOf("/n", 1), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	res, err := c.ReadItem(ctx, pk("a"), "1", nil)
	if err != nil || !strings.Contains(string(res.Value), `"n":200,`) {
		t.Errorf("got %s, want n = 200: %v", res.Value, err)
	}
}

// TestItem_RepeatedNames: repeated names on the paths of the id, partition key or time to live are
// refused.
func TestItem_RepeatedNames(t *testing.T) {
	for _, one := range []struct{ paths, key, doc string }{
		{"/pk", `["p"]`, `{"id":"1","pk":"p","id":"1"}`},
		{"/pk", `["p"]`, `{"id":"1","pk":"p","id":"2"}`},
		{"/pk", `["p"]`, `{"id":"1","pk":"p","i\u0064":"2"}`},
		{"/pk", `["p"]`, `{"id":"1","pk":"p","pk":"q"}`},
		{"/pk", `["q"]`, `{"id":"1","pk":"p","pk":"q"}`},
		{"/pk", `["p"]`, `{"id":"1","pk":"p","ttl":10,"ttl":20}`},
		{"/pk", `["p"]`, `{"id":"1","pk":"p","ttl":null,"ttl":20}`},
		{"/a/b", `["p"]`, `{"id":"1","a":{"b":"p","b":"q"}}`},
		{"/a/b", `["p"]`, `{"id":"1","a":{"b":"p"},"a":{}}`},
		{"/a/b", `["p"]`, `{"id":"1","a":1,"a":{"b":"p"}}`},
		{"/a/0/b", `["p"]`, `{"id":"1","a":[{"b":"p","b":"q"}]}`},
		{"/a,/b,/c", `["1","2","3"]`, `{"id":"1","a":"1","b":"2","c":"3","c":"4"}`},
	} {
		e := newEngine(t, Options{})
		newContainer(t, e,
			azcosmos.ContainerProperties{
				PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: strings.Split(one.paths, ","),
					Version: 2}})
		res := do(t, e, "POST", "/dbs/db/colls/c/docs", one.doc, "x-ms-documentdb-partitionkey", one.key)
		if b, err := io.ReadAll(res.Body); res.StatusCode != 400 || !strings.Contains(string(b), "more than once") {
			t.Errorf("%s by %s: got %s %s, want 400: %v", one.doc, one.paths, res.Status, b, err)
		}
	}
	e := newEngine(t, Options{})
	newContainer(t, e,
		azcosmos.ContainerProperties{
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/a/b", "/a/c"}, Version: 2}})
	// these names are not reserved
	elsewhere := `{"id":"1","a":{"b":"1","c":"2","id":1,"ttl":1},"x":{"id":1,"id":2,"a":1,"a":2}}`
	if res := do(t, e, "POST", "/dbs/db/colls/c/docs", elsewhere, "x-ms-documentdb-partitionkey",
		`["1","2"]`); res.StatusCode != 201 {
		t.Errorf("%s: %s", elsewhere, res.Status)
	}
}

// TestIndex_RepeatedNames: the first of two members with one name is indexed, and a rewrite leaves
// no stale entry.
func TestIndex_RepeatedNames(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i, one := range []struct{ before, after, where string }{
		{`"a":1,"a":1`, `"a":1`, `c.a = 1`},
		{`"a":2,"a":1`, `"a":1`, `c.a = 1`},
		{`"a":1,"a":2`, `"a":1`, `c.a = 1`},
		{`"a":1.0,"a":1`, `"a":1`, `c.a = 1`},
		{`"a":1`, `"a":1,"a":2`, `c.a = 1`},
		{`"a":1`, `"a":2,"a":1`, `c.a = 2`},
		{`"a":1`, `"a":2,"a":1`, `c.a >= 0`},
		{`"a":{"b":1},"a":{"b":2}`, `"a":{"b":2}`, `c.a.b = 2`},
		// a position's bytes
		{`"a":[5]`, `"a":{"\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000":5}`,
			`c.a["\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000"] = 5`},
	} {
		key := fmt.Sprint(i)
		mustCreate(t, c, key, `{"id":"1","pk":"`+key+`",`+one.before+`}`)
		if _, err := c.ReplaceItem(ctx, pk(key), "1", []byte(`{"id":"1","pk":"`+key+`",`+one.after+`}`),
			nil); err != nil {
			t.Fatal(err)
		}
		if got := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE "+one.where, pk(key), nil); len(got) != 1 {
			t.Errorf("%s, then %s: %d items with %s", one.before, one.after, len(got), one.where)
		}
	}
	audit(t, e)
}

// TestIndex_HashCollision: two properties with the same path hash are both indexed, and change
// independently.
func TestIndex_HashCollision(t *testing.T) {
	ctx := context.Background()
	const a, b = "7mohtcOFVz", "c1E51sSEyx"
	if index.HashPath(sql.Path{a}) != index.HashPath(sql.Path{b}) {
		t.Fatal("the paths have different hashes")
	}
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	both := func(av, bv string) string { return `,"` + a + `":` + av + `,"` + b + `":` + bv }
	first := func(av string) string { return `,"` + a + `":` + av }
	second := func(bv string) string { return `,"` + b + `":` + bv }
	for i, one := range []struct {
		before, after string
		a, b          string // afterwards, if any
	}{
		{"", both("1", "2"), "1", "2"},
		{both("1", "2"), both("1", "3"), "1", "3"},
		{both("1", "2"), both("2", "1"), "2", "1"},
		{both("1", "2"), first("1"), "1", ""},
		{both("1", "2"), second("2"), "", "2"},
		{both("1", "1"), first("1"), "1", ""},
		{both("1.0", "1"), second("1"), "", "1"},
		{first("1"), second("1"), "", "1"},
		{second("1"), both("1", "1.0"), "1", "1"},
		{both("1", "2"), "", "", ""},
	} {
		key := fmt.Sprint(i)
		mustCreate(t, c, key, `{"id":"1","pk":"`+key+`"`+one.before+`}`)
		if _, err := c.ReplaceItem(ctx, pk(key), "1", []byte(`{"id":"1","pk":"`+key+`"`+one.after+`}`),
			nil); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{a: one.a, b: one.b} {
			want := 1
			if value == "" {
				value, want = "0", 0
			}
			for _, operator := range []string{"=", ">="} {
				text := fmt.Sprintf(`SELECT VALUE c.id FROM c WHERE c["%s"] %s %s`, name, operator, value)
				if got := queryAll(t, c, text, pk(key), nil); len(got) != want {
					t.Errorf("%s, then %s: %d items, want %d: %s", one.before, one.after, len(got), want, text)
				}
			}
		}
	}
	audit(t, e)
}

// TestUnpairedSurrogates_Refused: JSON can escape an unpaired surrogate, which UTF-8 cannot encode. No
// id, key, property or query may contain one.
func TestUnpairedSurrogates_Refused(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p","s":"\ud83d\ude00"}`)
	const docs, key = "/dbs/db/colls/c/docs", "X-Ms-Documentdb-Partitionkey"
	send := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		res := do(t, e, method, path, body, headers...)
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Errorf("%s %s %s: got %d %s, want %d: %v", method, path, body, res.StatusCode, b, want, err)
		}
	}
	batch := []string{key, `["p"]`, "X-Ms-Cosmos-Is-Batch-Request", "true", "X-Ms-Cosmos-Batch-Atomic", "true"}
	query := []string{key, `["p"]`, "X-Ms-Documentdb-Isquery", "true"}
	for _, one := range []string{`\ud800`, `\udfff`, `\udc00\ud800`, "\xff"} {
		send(400, "POST", docs, `{"id":"`+one+`","pk":"p"}`, key, `["p"]`)
		send(400, "POST", docs, `{"id":"2","pk":"p","a":["`+one+`"]}`, key, `["p"]`)
		send(400, "POST", docs, `{"id":"2","pk":"p","`+one+`":1}`, key, `["p"]`)
		send(400, "GET", docs+"/1", "", key, `["`+one+`"]`)
		send(400, "PATCH", docs+"/1", `[{"op":"add","path":"/`+one+`","value":1}]`, key, `["p"]`)
		send(400, "POST", docs, `[{"operationType":"Read","id":"`+one+`"}]`, batch...)
		send(400, "POST", docs, `{"query":"SELECT * FROM c WHERE c.id = '`+one+`'"}`, query...)
		send(400, "POST", docs, `{"query":"SELECT * FROM c WHERE c.id = '`+strings.ReplaceAll(one, `\`, `\\`)+`'"}`,
			query...)
		send(400, "POST", docs,
			`{"query":"SELECT * FROM c WHERE c.id = @id","parameters":[{"name":"@id","value":"`+one+`"}]}`, query...)
		if one != "\xff" {
			send(400, "POST", "/dbs", `{"id":"`+one+`"}`)
			send(400, "POST", "/dbs/db/colls", `{"id":"`+one+`","partitionKey":{"paths":["/pk"]}}`)
		}
	}
	send(404, "GET", docs+"/%ED%A0%80", "", key, `["p"]`)
	send(200, "POST", docs, `{"query":"SELECT * FROM c WHERE c.s = '\\ud83d\\ude00'"}`, query...)
	audit(t, e)
}

// TestItem_WhiteSpace: an item is stored without white space between tokens. White space in strings
// stays.
func TestItem_WhiteSpace(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	const want = `{"id":"%d","pk":"p","text":"a \" b\\","list":[1,{"x y":[]}]`
	for i, doc := range []string{
		`{"id":"%d","pk":"p","text":"a \" b\\","list":[1,{"x y":[]}]}`,
		` {"id":"%d","pk":"p","text":"a \" b\\","list":[1,{"x y":[]}]}`,
		`{"id":"%d","pk":"p","text":"a \" b\\","list":[1,{"x y":[]}]}` + "\n",
		`{"id":"%d","pk":"p",` + "\r" + `"text":"a \" b\\","list":[1,` + "\t" + `{"x y":[ ]}]}`,
	} {
		doc, want := fmt.Sprintf(doc, i), fmt.Sprintf(want, i)
		if res := do(t, e, "POST", "/dbs/db/colls/c/docs", doc, "x-ms-documentdb-partitionkey",
			`["p"]`); res.StatusCode != 201 {
			t.Errorf("%s: %s", doc, res.Status)
		}
		if b, err := io.ReadAll(do(t, e, "GET", fmt.Sprintf("/dbs/db/colls/c/docs/%d", i), "",
			"x-ms-documentdb-partitionkey", `["p"]`).Body); err != nil || !strings.HasPrefix(string(b), want+",") {
			t.Errorf("%q is stored as %s, want %s: %v", doc, b, want, err)
		}
	}
	for _, doc := range []string{`{"id":"x","pk":"p" "a":1}`, `{"id":"x","pk":"p"}}`, `["id"]`, `{"id":"x","pk":"p",}`,
		""} {
		if res := do(t, e, "POST", "/dbs/db/colls/c/docs", doc, "x-ms-documentdb-partitionkey",
			`["p"]`); res.StatusCode != 400 {
			t.Errorf("%q: %s", doc, res.Status)
		}
	}
}

// TestJSON compares ValidJSON and compact with encoding/json, except that unpaired surrogates and
// invalid UTF-8 are refused.
func TestJSON(t *testing.T) {
	part := rapid.SampledFrom([]string{`{`, `}`, `[`, `]`, `,`, `:`, `""`, `"a"`, `"a"`, `" \\\" "`, `"\u00e9"`,
		"\"\xff\"", `"\ud800"`, "\"\t\"", `1`, `-2.50e1`, `01`, `true`, `null`, `nul`, ` `, "\n", "\t\r", "\f"})
	value := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{`{"a" : 1, "a":[ ] }`, "[\n 1 , \" : \\\" \" ]",
			`{ "b": {"c" :null} }`}).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(strings.Join(rapid.SliceOfN(rapid.OneOf(part, part, value), 0, 6).Draw(t, "parts"), ""))
		if sql.ValidJSON(raw) != (json.Valid(raw) && utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\ud800`))) {
			t.Fatalf("%q: %t", raw, sql.ValidJSON(raw))
		}
		var want bytes.Buffer
		if json.Compact(&want, raw) == nil && !bytes.Equal(sql.Compact(raw), want.Bytes()) {
			t.Fatalf("%q: %q", raw, sql.Compact(raw))
		}
	})
}
