package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/layout"
)

func TestTimeToLive(t *testing.T) {
	ctx := context.Background()
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: clock.Now})
	ttl := int32(100)
	c := newContainer(t, e, azcosmos.ContainerProperties{DefaultTimeToLive: &ttl, IndexingPolicy: blogPolicy(),
		UniqueKeyPolicy: &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/u"}}}}})
	mustCreate(t, c, "p", `{"id":"default","pk":"p","type":"x","userId":"u","u":1}`)
	mustCreate(t, c, "p", `{"id":"short","pk":"p","type":"x","userId":"u","ttl":10,"u":2}`)
	mustCreate(t, c, "p", `{"id":"never","pk":"p","type":"x","userId":"u","ttl":-1,"u":3}`)
	ids := func() (n []int) {
		for _, q := range []string{
			"SELECT * FROM c",
			"SELECT * FROM c WHERE c.type = 'x' ORDER BY c.type, c.creationDate, c.id",
			"SELECT * FROM c WHERE c.userId = 'u'",
			"SELECT * FROM c WHERE c.id IN ('default', 'short', 'never', 'takes its unique value')",
			"SELECT * FROM c ORDER BY c.id",
		} {
			n = append(n, len(queryAll(t, c, q, pk("p"), nil)))
		}
		return append(n, len(queryAll(t, c, "SELECT * FROM c", azcosmos.NewPartitionKey(), nil)),
			len(changes(t, c, nil)))
	}
	want := func(n int) {
		t.Helper()
		for i, got := range ids() {
			if got != n {
				t.Errorf("reader %d sees %d items, want %d", i, got, n)
			}
		}
	}
	want(3)
	clock.now = clock.now.Add(9 * time.Second)
	want(3)
	clock.now = clock.now.Add(time.Second)
	want(2)
	_, err := c.ReadItem(ctx, pk("p"), "short", nil)
	wantStatus(t, err, 404, "")
	_, err = c.ReplaceItem(ctx, pk("p"), "short", []byte(`{"id":"short","pk":"p"}`), nil)
	wantStatus(t, err, 404, "")
	_, err = c.PatchItem(ctx, pk("p"), "short", patchOf("/n", 1), nil)
	wantStatus(t, err, 404, "")
	_, err = c.DeleteItem(ctx, pk("p"), "short", nil)
	wantStatus(t, err, 404, "")

	mustCreate(t, c, "p", `{"id":"takes its unique value","pk":"p","type":"x","userId":"u","u":2}`)
	want(3)
	mustCreate(t, c, "p", `{"id":"short","pk":"p","type":"x","userId":"u","u":5}`) // the id is free again
	want(4)
	clock.now = clock.now.Add(90 * time.Second)
	want(3) // "default" expired
	n, err := e.purge(ctx)
	if err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}
	want(3)
	clock.now = clock.now.Add(time.Hour)
	want(1)
	if n, err = e.purge(ctx); err != nil || n != 2 {
		t.Errorf("purged %d, %v", n, err)
	}
	want(1)
	if _, err := c.DeleteItem(ctx, pk("p"), "never", nil); err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, e)
}

// wantEmpty fails if an item or an index entry is left.
func wantEmpty(t *testing.T, e *Engine) {
	t.Helper()
	it, err := e.db.NewIter(&pebble.IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		if k := it.Key()[0]; k != layout.KindMeta && k != layout.KindLSN {
			t.Errorf("left over: %q", it.Key())
		}
	}
}

// TestUniqueKeys_ExpiredOwner: an item can take several unique values of one expired item.
func TestUniqueKeys_ExpiredOwner(t *testing.T) {
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: clock.Now})
	ttl := int32(10)
	c := newContainer(t, e, azcosmos.ContainerProperties{DefaultTimeToLive: &ttl,
		UniqueKeyPolicy: &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/u"}},
			{Paths: []string{"/v"}}}}})
	mustCreate(t, c, "p", `{"id":"expired","pk":"p","u":1,"v":1}`)
	clock.now = clock.now.Add(10 * time.Second)
	mustCreate(t, c, "p", `{"id":"new","pk":"p","u":1,"v":1}`)
	for _, doc := range []string{`{"id":"x","pk":"p","u":1,"v":2}`, `{"id":"x","pk":"p","u":2,"v":1}`} {
		_, err := c.CreateItem(context.Background(), pk("p"), []byte(doc), nil)
		wantStatus(t, err, 409, "")
	}
	audit(t, e)
}

// TestPurge_LargeItems: expired items with many index entries are removed in several transactions.
func TestPurge_LargeItems(t *testing.T) {
	heavy(t)
	t.Parallel()
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: clock.Now})
	ttl := int32(10)
	c := newContainer(t, e, azcosmos.ContainerProperties{DefaultTimeToLive: &ttl})
	key := strings.Repeat("k", 2048)
	var properties []byte
	for i := range maxBatchWritten / 2 / len(key) {
		properties = fmt.Appendf(properties, `,"%d":0`, i)
	}
	for i := range 3 {
		mustCreate(t, c, key, fmt.Sprintf(`{"id":"%d","pk":%q%s}`, i, key, properties))
	}
	p := e.catalog.Load().databases["db"].containers["c"].ranges[0]
	before := p.applied.Load()
	clock.now = clock.now.Add(10 * time.Second)
	if _, err := e.purge(t.Context()); err != nil { // the engine's purge loop may run at the same time
		t.Fatal(err)
	}
	if n := p.applied.Load() - before; n < 2 {
		t.Errorf("%d transactions, want several", n)
	}
	scan(t, e, layout.KindItem, e.catalog.Load().databases["db"].containers["c"], func(key, _ []byte) {
		t.Errorf("%q is left", key)
	})
	audit(t, e)
}

// TestBatch_ReplacesExpiredOwners: each item of a batch removes several expired ones and still has
// a unique resource id.
func TestBatch_ReplacesExpiredOwners(t *testing.T) {
	ctx := context.Background()
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: clock.Now})
	ttl := int32(10)
	c := newContainer(t, e,
		azcosmos.ContainerProperties{DefaultTimeToLive: &ttl, UniqueKeyPolicy: &azcosmos.UniqueKeyPolicy{
			UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/u"}}, {Paths: []string{"/v"}},
				{Paths: []string{"/w"}}}}})
	for i := range 100 {
		for k, name := range []string{"u", "v", "w"} { // one value that the new item takes, and two others
			values := map[string]any{"id": fmt.Sprint("expired", i, name), "pk": "p", "u": -3*i - k - 1,
				"v": -3*i - k - 1, "w": -3*i - k - 1}
			values[name] = i
			doc, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			mustCreate(t, c, "p", string(doc))
		}
	}
	clock.now = clock.now.Add(10 * time.Second)
	b := c.NewTransactionalBatch(pk("p"))
	for i := range 100 {
		b.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":"p","u":%d,"v":%d,"w":%d}`, i, i, i, i), nil)
	}
	if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
		t.Fatal(err, statuses(out))
	}
	rids := queryAll(t, c, "SELECT VALUE c._rid FROM c", azcosmos.NewPartitionKey(), nil)
	slices.Sort(rids)
	if n := len(slices.Compact(rids)); n != 100 {
		t.Errorf("%d resource ids, want 100", n)
	}
	audit(t, e)
}

func TestTimeToLive_OffByDefault(t *testing.T) {
	ctx := context.Background()
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: clock.Now})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p","ttl":1}`)
	clock.now = clock.now.Add(time.Hour)
	if _, err := c.ReadItem(ctx, pk("p"), "1", nil); err != nil {
		t.Error(err)
	}
	ttl := int32(-1)
	if _, err := c.Replace(ctx,
		azcosmos.ContainerProperties{ID: "c", DefaultTimeToLive: &ttl,
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}},
		nil); err != nil {
		t.Fatal(err)
	}
	_, err := c.ReadItem(ctx, pk("p"), "1", nil)
	wantStatus(t, err, 404, "")
	if n, err := e.purge(ctx); err != nil || n != 1 {
		t.Errorf("purge after enabling time to live: purged %d, want 1: %v", n, err)
	}
}

// TestPurge_DroppedContainer: a container that is dropped during the purge does not make it fail.
func TestPurge_DroppedContainer(t *testing.T) {
	var tick atomic.Pointer[func()]
	clock := newFakeClock()
	e := newEngine(t, Options{Clock: func() time.Time {
		if fn := tick.Load(); fn != nil {
			(*fn)()
		}
		return clock.Now()
	}})
	ttl := int32(1)
	c := newContainer(t, e, azcosmos.ContainerProperties{DefaultTimeToLive: &ttl})
	for _, key := range []string{"p", "q"} {
		mustCreate(t, c, key, `{"id":"1","pk":"`+key+`"}`)
	}
	clock.now = clock.now.Add(time.Minute)
	inner := e.catalog.Load().databases["db"].containers["c"]
	dropped := make(chan error, 1)
	begun := false
	drop := func() {
		if begun {
			return
		}
		if p := inner.ranges[0]; p.mu.TryLock() { // the purge has not reached an item yet
			p.mu.Unlock()
			return
		}
		begun = true
		go func() { _, err := c.Delete(context.Background(), nil); dropped <- err }()
		for inner.mu.TryRLock() { // until Delete waits for the lock
			inner.mu.RUnlock()
			runtime.Gosched()
		}
	}
	tick.Store(&drop)
	n, err := e.purge(t.Context())
	tick.Store(nil)
	if err != nil || n != 1 || !begun {
		t.Errorf("purged %d, want 1; drop started: %t; %v", n, begun, err)
	}
	if err := <-dropped; err != nil {
		t.Error(err)
	}
}
