package emulator

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"

	"byline/store/emulator/internal/layout"
)

// TestModel runs random operations against the engine, through azcosmos, and against a model of Go
// maps and slices, and compares the results. Longer run: BYLINE_TEST_LONG=1 go test ./store/emulator
// -run TestModel -rapid.steps=100.
func TestModel(t *testing.T) {
	heavy(t)
	printSeed(t)
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		defer r.end(t)
		t.Repeat(map[string]func(*rapid.T){
			"create":    func(t *rapid.T) { r.write(t, "Create") },
			"upsert":    func(t *rapid.T) { r.write(t, "Upsert") },
			"replace":   func(t *rapid.T) { r.write(t, "Replace") },
			"patch":     func(t *rapid.T) { r.write(t, "Patch") },
			"delete":    func(t *rapid.T) { r.write(t, "Delete") },
			"batch":     r.batch,
			"read":      r.read,
			"readMany":  r.readMany,
			"query":     r.query,
			"cross":     r.crossQuery,
			"aggregate": r.aggregate,
			"groups":    r.groups,
			"distinct":  r.distinct,
			"reindex":   r.reindex,
			"keyset":    r.keyset,
			"page":      r.openPages,
			"next page": r.nextPages,
			"feed":      r.feed,
			"feed time": r.feedSince,
			"clock":     r.passTime,
			"purge":     r.purge,
			"reopen":    r.reopen,
			"":          r.check,
		})
	})
}

// printSeed chooses a seed, unless the flag sets one, and logs it so that the run can be repeated.
func printSeed(t *testing.T) {
	seed := flag.Lookup("rapid.seed").Value
	if seed.String() == "0" {
		if err := seed.Set(strconv.FormatUint(rand.Uint64(), 10)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = seed.Set("0") })
	}
	t.Logf("-rapid.seed=%s", seed)
}

// rig is an engine and the model of its contents.
type rig struct {
	model
	dir    string // "" in memory
	e      *Engine
	client *azcosmos.Client
	c      *azcosmos.ContainerClient
	clock  atomic.Int64 // seconds
	policy modelPolicy

	lsn         int                // of the last write
	checkpoints []checkpoint       // of the change feed
	pages       []*pages           // open queries
	etags       []string           // all ETags so far
	times       map[int64]struct{} // of writes
}

// modelPolicy is an indexing policy in the form that the model uses.
type modelPolicy struct {
	name       string
	included   []string
	composites [][]string // paths; "-" before a path is descending
}

var modelPolicies = []modelPolicy{
	{"everything", []string{"/*"}, nil},
	{"everything and composites", []string{"/*"}, [][]string{{"t", "n", "id"}, {"n", "-s"}, {"-s", "-id"}}},
	{"composites only", nil, [][]string{{"t", "n", "id"}, {"t", "s", "id"}, {"-n", "s"}}},
	{"little", []string{"/t/?", "/o/*"}, [][]string{{"s", "id"}}},
}

func (p modelPolicy) properties() *azcosmos.IndexingPolicy {
	out := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent}
	for _, path := range p.included {
		out.IncludedPaths = append(out.IncludedPaths, azcosmos.IncludedPath{Path: path})
	}
	if !slices.Contains(p.included, "/*") {
		out.ExcludedPaths = []azcosmos.ExcludedPath{{Path: "/*"}}
	}
	for _, columns := range p.composites {
		var index []azcosmos.CompositeIndex
		for _, c := range columns {
			name, desc := descending(c)
			order := azcosmos.CompositeIndexAscending
			if desc {
				order = azcosmos.CompositeIndexDescending
			}
			index = append(index, azcosmos.CompositeIndex{Path: "/" + name, Order: order})
		}
		out.CompositeIndexes = append(out.CompositeIndexes, index)
	}
	return out
}

func newRig(t *rapid.T) *rig {
	r := &rig{model: newModel(), times: map[int64]struct{}{}}
	r.clock.Store(1_700_000_000)
	r.now = r.clock.Load()
	if rapid.Bool().Draw(t, "on disk") {
		var err error
		if r.dir, err = os.MkdirTemp("", "model"); err != nil {
			t.Fatal(err)
		}
	}
	r.policy = rapid.SampledFrom(modelPolicies).Draw(t, "policy")
	p := azcosmos.ContainerProperties{ID: "c",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		IndexingPolicy:         r.policy.properties()}
	if ttl := rapid.SampledFrom([]int32{0, -1, 30}).Draw(t, "defaultTtl"); ttl != 0 {
		r.ttl, p.DefaultTimeToLive = ttl, &ttl
	}
	if r.unique = rapid.IntRange(0, 3).Draw(t, "unique") == 0; r.unique {
		p.UniqueKeyPolicy = &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/u"}}}}
	}
	r.open(t)
	if _, err := r.client.CreateDatabase(context.Background(), azcosmos.DatabaseProperties{ID: "db"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := r.client.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(context.Background(), p, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open(t *rapid.T) {
	var err error
	if r.e, err = Open(r.dir, Options{Clock: func() time.Time { return time.Unix(r.clock.Load(), 0) }}); err != nil {
		t.Fatal(err)
	}
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	if r.client,
		err = azcosmos.NewClientWithKey(r.e.Endpoint(), cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: r.e, Retry: policy.RetryOptions{MaxRetries: -1}}}); err != nil {
		t.Fatal(err)
	}
	if r.c, err = r.client.NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) shut(t *rapid.T) {
	r.client.Close()
	if err := r.e.Close(); err != nil {
		t.Error(err)
	}
}

func (r *rig) end(t *rapid.T) {
	r.shut(t)
	if r.dir != "" {
		os.RemoveAll(r.dir)
	}
}

// reopen closes the engine and opens it again on its directory.
func (r *rig) reopen(t *rapid.T) {
	if r.dir == "" {
		t.Skip("in memory")
	}
	r.shut(t)
	r.open(t)
}

func (r *rig) passTime(t *rapid.T) {
	r.now += rapid.Int64Range(1, 20).Draw(t, "seconds")
	r.clock.Store(r.now)
}

// purge removes expired items. No operation may observe it.
func (r *rig) purge(t *rapid.T) {
	if _, err := r.e.purge(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// check compares all items, by a scan over the partitions, and the change feed, after every step.
func (r *rig) check(t *rapid.T) {
	rows := r.drain(t, "SELECT * FROM c", azcosmos.NewPartitionKey(), nil)
	var got []map[string]any
	for _, row := range rows {
		got = append(got, parsed(t, row))
	}
	want := r.live(func(*modelItem) bool { return true })
	if len(got) != len(want) {
		t.Fatalf("the engine has %d items, the model %d", len(got), len(want))
	}
	for _, doc := range got {
		pk, _ := json.Marshal(doc["pk"])
		i := r.find(modelKey{string(pk), doc["id"].(string)})
		if i == nil {
			t.Fatalf("only the engine has %v", doc)
		}
		r.same(t, i, doc)
	}
	r.checkFeed(t, r.readFeed(t, "", 0, nil), checkpoint{})
}

// same compares a document that the engine returned with an item of the model.
func (r *rig) same(t *rapid.T, i *modelItem, doc map[string]any) {
	if doc["_etag"] != i.etag || doc["_ts"] != float64(i.ts) {
		t.Fatalf("%v: want ETag %s and _ts %d", doc, i.etag, i.ts)
	}
	bare := maps.Clone(doc)
	for name := range doc {
		if layout.IsSystemProperty(name) {
			delete(bare, name)
		}
	}
	if !equalJSON(bare, i.doc) {
		t.Fatalf("the engine has %v, the model %v", bare, i.doc)
	}
}

func parsed(t *rapid.T, b []byte) map[string]any {
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return doc
}

func equalJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// keyOf converts a partition key of the model to one of azcosmos.
func keyOf(pk string) azcosmos.PartitionKey {
	var v any
	if err := json.Unmarshal([]byte(pk), &v); err != nil {
		panic(err)
	}
	switch v := v.(type) {
	case string:
		return azcosmos.NewPartitionKeyString(v)
	case float64:
		return azcosmos.NewPartitionKeyNumber(v)
	case bool:
		return azcosmos.NewPartitionKeyBool(v)
	}
	return azcosmos.NullPartitionKey
}

func (r *rig) anyKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{`"p"`, `"p"`, `"q"`, `7`, `null`}).Draw(t, "pk")
}

func (r *rig) anyID(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "é f"}).Draw(t, "id")
}

// session checks that a write's LSN is higher than those of all earlier writes.
func (r *rig) session(t *rapid.T, token *string) {
	var partition, lsn int
	if token == nil {
		t.Fatal("no session token")
	}
	if _, err := fmt.Sscanf(*token, "%d:-1#%d", &partition, &lsn); err != nil || lsn <= r.lsn {
		t.Fatalf("session token %q after LSN %d: %v", *token, r.lsn, err)
	}
	r.lsn = lsn
}
