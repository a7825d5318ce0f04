package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"byline/store/emulator/internal/storage"
)

// slowDisk is a disk whose syncs of the write-ahead log wait while it is held.
type slowDisk struct {
	mem *vfs.MemFS
	mu  sync.RWMutex
}

func newSlowDisk() *slowDisk { return &slowDisk{mem: vfs.NewCrashableMem()} }

func (d *slowDisk) fs() vfs.FS {
	return errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.HasSuffix(op.Path, ".log") {
				d.mu.RLock()
				defer d.mu.RUnlock()
			}
		}
		return nil
	}))
}

// hold makes syncs wait until the returned function is called.
func (d *slowDisk) hold() (release func()) {
	d.mu.Lock()
	return sync.OnceFunc(d.mu.Unlock)
}

// crashed returns the disk as a crash at this moment would leave it.
func (d *slowDisk) crashed() vfs.FS { return d.mem.CrashClone(vfs.CrashCloneCfg{}) }

// pending starts a write and returns when it is visible to readers, but not durable as long as the disk
// is held. The channel receives the result.
func pending(t *testing.T, e *Engine, write func() error) <-chan error {
	t.Helper()
	done := begun(t, e, write)
	c := e.catalog.Load().databases["db"].containers["c"]
	await(t, func() bool {
		lsn, err := storedLSN(e.db, c, c.ranges[0])
		return err == nil && lsn == c.ranges[0].applied.Load()
	})
	return done
}

// begun starts a write and returns when it has an LSN.
func begun(t *testing.T, e *Engine, write func() error) <-chan error {
	t.Helper()
	p := e.catalog.Load().databases["db"].containers["c"].ranges[0]
	before := p.applied.Load()
	done := make(chan error, 1)
	go func() { done <- write() }()
	await(t, func() bool {
		select {
		case err := <-done:
			t.Fatal("the write did not wait for the disk:", err)
		default:
		}
		return p.applied.Load() > before
	})
	return done
}

// TestChangeFeed_UnsyncedWrite: an item that an unsynced write moved in the feed is not skipped.
func TestChangeFeed_UnsyncedWrite(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"moves","pk":"p","n":1}`)
	mustCreate(t, c, "p", `{"id":"stays","pk":"p","n":1}`)
	release := disk.hold()
	defer release()
	written := pending(t, e, func() error {
		_, err := c.UpsertItem(ctx, pk("p"), []byte(`{"id":"moves","pk":"p","n":2}`), nil)
		return err
	})
	type page struct {
		res   azcosmos.ChangeFeedResponse
		err   error
		after vfs.FS
	}
	pages := make(chan page, 1)
	go func() {
		res, err := c.ReadChangeFeed(ctx,
			&azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
		pages <- page{res, err, disk.crashed()}
	}()
	var first page
	select {
	case first = <-pages: // must only show durable items
	case <-time.After(100 * time.Millisecond):
		release()
		first = <-pages
	}
	if first.err != nil {
		t.Fatal(first.err)
	}
	seen := map[string]int{}
	for _, i := range first.res.Items {
		var one change
		mustUnmarshal(t, i, &one)
		seen[one.ID] = one.N
	}
	again := newEngineOn(t, first.after, Options{})
	token := strings.ReplaceAll(first.res.ContinuationToken, e.Endpoint(), again.Endpoint())
	client, err := newClient(t, again).NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range changes(t, client, &azcosmos.ChangeFeedOptions{Continuation: &token}) {
		seen[one.ID] = one.N
	}
	for _, id := range []string{"moves", "stays"} {
		res, err := client.ReadItem(ctx, pk("p"), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		var now change
		mustUnmarshal(t, res.Value, &now)
		if seen[id] != now.N {
			t.Errorf("%s: the reader saw version %d, but after the crash it has %d", id, seen[id], now.N)
		}
	}
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestDurability_LargeBatch: a batch over half a memtable, whose bytes Pebble takes over, waits for its
// sync like any other, and so do later reads of it.
func TestDurability_LargeBatch(t *testing.T) {
	heavy(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	const patches = 5
	mustCreate(t, c, "p",
		`{"id":"large","pk":"p","n":0,"x":"`+strings.Repeat("x", storage.MemTableBytes/2/patches+1)+`"}`)
	release := disk.hold()
	defer release()
	var out azcosmos.TransactionalBatchResponse
	written := begun(t, e, func() (err error) {
		b := c.NewTransactionalBatch(pk("p"))
		for range patches {
			b.PatchItem("large", patchOf("/n", 1), nil)
		}
		out, err = c.ExecuteTransactionalBatch(ctx, b, nil)
		return err
	})
	select {
	case err := <-written:
		t.Fatalf("the write did not wait for the disk: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if err := <-written; err != nil || !out.Success || out.SessionToken != "0:-1#2" {
		t.Errorf("%v %v %q", err, out.Success, out.SessionToken)
	}
	res, err := c.NewQueryItemsPager("SELECT VALUE c.n FROM c", pk("p"), nil).NextPage(ctx)
	if err != nil || len(res.Items) != 1 || string(res.Items[0]) != "5" {
		t.Errorf("query after the batch: got %q, want 5: %v", res.Items, err)
	}
}

// TestDurability_Reads: while a create and a delete wait for the disk, responses that depend on
// them wait, and others do not.
func TestDurability_Reads(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"old","pk":"p"}`)
	mustCreate(t, c, "p", `{"id":"deleted","pk":"p"}`)
	release := disk.hold()
	defer release()
	create := pending(t, e, func() error {
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"new","pk":"p"}`), nil)
		return err
	})
	del := pending(t, e, func() error {
		_, err := c.DeleteItem(ctx, pk("p"), "deleted", nil)
		return err
	})
	if _, err := c.ReadItem(ctx, pk("p"), "old", nil); err != nil { // does not wait
		t.Error(err)
	}
	if got := do(t, e, "GET", "/dbs/db/colls/c", "").Header.Get("X-Ms-Session-Token"); got != "0:-1#2" {
		t.Errorf("session token of the container: %s, want 0:-1#2", got)
	}
	if b, err := io.ReadAll(do(t, e, "GET", "/dbs/db/colls/c/pkranges", "").Body); err != nil ||
		!strings.Contains(string(b), `"lsn":2`) {
		t.Errorf("partition key ranges: got %s, want LSN 2: %v", b, err)
	}
	batch := func(id string) func() error {
		return func() error {
			b := c.NewTransactionalBatch(pk("p"))
			b.ReadItem(id, nil)
			out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			if err == nil && !out.Success {
				err = errStatus(out.OperationResults[0].StatusCode)
			}
			return err
		}
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result, 16)
	want := map[string]int{}
	start := func(name string, status int, fn func() error) {
		want[name] = status
		go func() { results <- result{name, fn()} }()
	}
	start("create of an unsynced item", http.StatusConflict, func() error {
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"new","pk":"p"}`), nil)
		return err
	})
	start("read of an unsynced item", 0, func() error { _, err := c.ReadItem(ctx, pk("p"), "new", nil); return err })
	start("read after an unsynced delete", http.StatusNotFound, func() error {
		_, err := c.ReadItem(ctx, pk("p"), "deleted", nil)
		return err
	})
	start("delete after an unsynced delete", http.StatusNotFound, func() error {
		_, err := c.DeleteItem(ctx, pk("p"), "deleted", nil)
		return err
	})
	start("batch that only reads", 0, batch("new"))
	start("batch that fails", http.StatusNotFound, batch("deleted"))
	bulkOf := func(op string) func() error {
		return func() error {
			if _, results := bulk(t, e, "0", "["+op+"]"); results[0].Status >= 300 {
				return errStatus(results[0].Status)
			}
			return nil
		}
	}
	start("bulk that writes", 0,
		bulkOf(`{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":{"id":"old","pk":"p"}}`))
	start("bulk that reads", 0, bulkOf(`{"operationType":"Read","partitionKey":"[\"p\"]","id":"new"}`))
	start("bulk that fails", http.StatusNotFound,
		bulkOf(`{"operationType":"Read","partitionKey":"[\"p\"]","id":"deleted"}`))
	start("query", 0, func() error {
		res, err := c.NewQueryItemsPager("SELECT VALUE c.id FROM c", pk("p"), nil).NextPage(ctx)
		if err == nil && len(res.Items) != 2 {
			err = errStatus(len(res.Items))
		}
		return err
	})
	early := []string{}
	for wait := time.After(100 * time.Millisecond); wait != nil; {
		select {
		case r := <-results:
			early = append(early, r.name)
			delete(want, r.name)
		case <-wait:
			wait = nil
		}
	}
	if slices.Sort(early); len(early) > 0 {
		t.Errorf("responses that depend on unsynced writes: %v", early)
	}
	release()
	for range len(want) {
		r := <-results
		got := statusOf(r.err)
		if s, ok := r.err.(errStatus); ok {
			got = int(s)
		}
		if got != want[r.name] {
			t.Errorf("%s: got %v, want %d", r.name, r.err, want[r.name])
		}
	}
	for _, done := range []<-chan error{create, del} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestDurability_CanceledRequest: a canceled reader stops waiting for a sync. A writer waits for
// the outcome.
func TestDurability_CanceledRequest(t *testing.T) {
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"deleted","pk":"p"}`)
	release := disk.hold()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	del := pending(t, e, func() error {
		_, err := c.DeleteItem(ctx, pk("p"), "deleted", nil)
		return err
	})
	create := pending(t, e, func() error {
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"new","pk":"p"}`), nil)
		return err
	})
	const docs = "/dbs/db/colls/c/docs"
	waiting := map[string]chan error{}
	for name, q := range map[string]*http.Request{
		"read": signed(t, "GET", docs+"/new", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil),
		"404":  signed(t, "GET", docs+"/deleted", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil),
		"409": signed(t, "POST", docs, http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
			[]byte(`{"id":"new","pk":"p"}`)),
		"query": signed(t, "POST", docs,
			http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "Content-Type": {"application/query+json"}},
			[]byte(`{"query":"SELECT * FROM c"}`)),
		"change feed": signed(t, "GET", docs, http.Header{"A-Im": {"Incremental Feed"}}, nil),
	} {
		done := make(chan error, 1)
		waiting[name] = done
		go func() {
			_, err := e.Do(q.WithContext(ctx))
			done <- err
		}()
	}
	await(t, func() bool { return e.durable.waiting.Load() == int64(len(waiting)) })
	cancel()
	for name, done := range waiting {
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s still waits after its cancellation", name)
		}
	}
	release()
	<-del // the error comes from the SDK
	<-create
	if got := queryAll(t, c, "SELECT VALUE c.id FROM c", pk("p"), nil); len(got) != 1 || got[0] != `"new"` {
		t.Errorf("after canceled writes that were applied: got %v, want new", got)
	}
}

// TestDurability_LostWrite: reads that could depend on a lost write are refused, others are served.
func TestDurability_LostWrite(t *testing.T) {
	ctx := context.Background()
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			return syscall.ENOSPC
		}
		return nil
	})
	e, err := open("", errorfs.Wrap(vfs.NewMem(), &full), Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() // returns the injected error
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	other := otherRange(t, e, "p")
	for _, key := range []string{"p", other} {
		mustCreate(t, c, key, `{"id":"kept","pk":"`+key+`"}`)
		mustCreate(t, c, key, `{"id":"touched","pk":"`+key+`"}`)
	}
	full.On()
	_, err = c.UpsertItem(ctx, pk("p"), []byte(`{"id":"touched","pk":"p","n":1}`), nil)
	wantStatus(t, err, http.StatusServiceUnavailable, "")
	for _, one := range []struct {
		key  string
		want map[string]int
	}{
		{"p", map[string]int{"kept": 200, "touched": 503, "missing": 503, "query": 503, "change feed": 503,
			"write": 503}},
		{other, map[string]int{"kept": 200, "touched": 200, "missing": 404, "query": 200, "change feed": 200,
			"write": 503}},
	} {
		const docs = "/dbs/db/colls/c/docs"
		key := `["` + one.key + `"]`
		got := map[string]int{
			"query": do(t, e, "POST", docs, `{"query":"SELECT * FROM c"}`, "x-ms-documentdb-partitionkey", key,
				"Content-Type", "application/query+json").StatusCode,
			"change feed": do(t, e, "GET", docs, "", "x-ms-documentdb-partitionkey", key, "A-IM",
				"Incremental Feed").StatusCode,
			"write": do(t, e, "POST", docs, `{"id":"later","pk":"`+one.key+`"}`, "x-ms-documentdb-partitionkey",
				key).StatusCode,
		}
		for _, id := range []string{"kept", "touched", "missing"} {
			got[id] = do(t, e, "GET", docs+"/"+id, "", "x-ms-documentdb-partitionkey", key).StatusCode
		}
		if d := cmp.Diff(one.want, got); d != "" {
			t.Errorf("%s: %s", one.key, d)
		}
	}
}

type errStatus int

func (e errStatus) Error() string { return http.StatusText(int(e)) }

// TestDamagedLog: an engine that finds the end of its write-ahead log damaged says so, and names the file.
func TestDamagedLog(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for _, id := range []string{"kept", "lost"} {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":%q,"pk":"p"}`, id))
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // as a kill would leave it
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(copied, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	content, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(logs[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	again, err := Open(copied, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "file="+logs[0]+" ") {
		t.Errorf("the log is %q, want a warning with the file %s", got, logs[0])
	}
	for id, want := range map[string]int{"kept": 200, "lost": 404} {
		res := do(t, again, "GET", "/dbs/db/colls/c/docs/"+id, "", "x-ms-documentdb-partitionkey", `["p"]`)
		if res.StatusCode != want {
			t.Errorf("%s: %s, want %d", id, res.Status, want)
		}
	}
}
