package emulator

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/storage"
)

func TestMain(m *testing.M) {
	if runCrashChild() || runScaleChild() {
		return
	}
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", pick("30", "300")); err != nil {
			panic(err)
		}
	}
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400) // saves a sixth of the CPU
		debug.SetMemoryLimit(1 << 30)
	}
	goleak.VerifyTestMain(m)
}

// pick returns long with BYLINE_TEST_LONG=1, and short otherwise.
func pick[T any](short, long T) T {
	if os.Getenv("BYLINE_TEST_LONG") == "1" {
		return long
	}
	return short
}

// heavy skips a test under -short that is too slow with the race detector.
func heavy(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("too slow with the race detector (-short)")
	}
}

// keyGuard fails a test that logs the engine's key.
type keyGuard struct{ testing.TB }

func (g keyGuard) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(WellKnownKey)) {
		g.Errorf("the key was logged: %s", p)
	}
	return len(p), nil
}

// newEngine opens an engine in memory for one test.
func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	return newEngineOn(t, vfs.NewMem(), o)
}

// newEngineOn opens an engine on a file system in memory for one test.
func newEngineOn(t testing.TB, memory vfs.FS, o Options) *Engine {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(keyGuard{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	e, err := open("", memory, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// newClient returns an azcosmos client of an engine.
func newClient(t testing.TB, e *Engine) *azcosmos.Client {
	t.Helper()
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(e.Endpoint(), cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: e, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// newContainer creates the database db, if missing, and a container, and returns its azcosmos client.
func newContainer(t testing.TB, e *Engine, p azcosmos.ContainerProperties) *azcosmos.ContainerClient {
	t.Helper()
	ctx, client := context.Background(), newClient(t, e)
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil); err != nil &&
		statusOf(err) != http.StatusConflict {
		t.Fatal(err)
	}
	db, err := client.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if p.ID == "" {
		p.ID = "c"
	}
	if p.PartitionKeyDefinition.Paths == nil {
		p.PartitionKeyDefinition.Paths = []string{"/pk"}
	}
	if _, err := db.CreateContainer(ctx, p, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// statusOf returns the HTTP status of an SDK's error, or 0.
func statusOf(err error) int {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}

func subStatusOf(err error) string {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.RawResponse.Header.Get("x-ms-substatus")
	}
	return ""
}

func wantStatus(t testing.TB, err error, status int, substatus string) {
	t.Helper()
	if got := statusOf(err); got != status {
		t.Fatalf("status %d, want %d: %v", got, status, err)
	}
	if got := subStatusOf(err); got != substatus {
		t.Fatalf("substatus %q, want %q: %v", got, substatus, err)
	}
}

// await polls until a condition holds.
func await(t testing.TB, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the condition did not hold within a minute")
		}
	}
}

func pk(s string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(s) }

func mustUnmarshal(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

func TestAuth_Signature(t *testing.T) {
	e := newEngine(t, Options{})
	cred, err := azcosmos.NewKeyCredential("d3Jvbmcga2V5")
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(e.Endpoint(), cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: e, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.CreateDatabase(context.Background(), azcosmos.DatabaseProperties{ID: "db"}, nil)
	wantStatus(t, err, 401, "")

	for name, header := range map[string]http.Header{
		"none":         {},
		"garbage":      {"Authorization": {"%%%"}},
		"no signature": {"Authorization": {"type=master&ver=1.0"}},
		"other kind":   {"Authorization": {"type=resource&ver=1.0&sig=abc"}},
		"other token":  {"Authorization": {"type=aad&ver=1.0&sig=a.b.c"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "http://localhost/dbs", nil)
			req.Header = header
			w := httptest.NewRecorder()
			e.ServeHTTP(w, req)
			if w.Code != 401 {
				t.Errorf("got %d %s, want 401", w.Code, w.Body)
			}
		})
	}
	t.Run("signature of another resource", func(t *testing.T) {
		req := signed(t, "GET", "/dbs/a", http.Header{}, nil)
		req.URL.Path = "/dbs/b"
		res, err := e.Do(req)
		if err != nil || res.StatusCode != 401 {
			t.Error(res.StatusCode, err)
		}
	})
	t.Run("the engine's own token", func(t *testing.T) {
		open := func(of *Engine) *azcosmos.Client {
			client, err := azcosmos.NewClient(e.Endpoint(), of.Credential(),
				&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
					Transport: e, Retry: policy.RetryOptions{MaxRetries: -1}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return client
		}
		if _, err := open(e).CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "db"}, nil); err != nil {
			t.Error(err)
		}
		other := newEngine(t, Options{Key: "YW5vdGhlciBrZXk="})
		_, err := open(other).CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "other"}, nil)
		wantStatus(t, err, 401, "")
	})
	t.Run("token of an emulator's test", func(t *testing.T) {
		sig := base64.RawURLEncoding.EncodeToString([]byte(WellKnownKey))
		req := httptest.NewRequest("GET", "http://localhost/dbs", nil)
		req.Header.Set("Authorization", "type=aad&ver=1.0&sig=e30.e30."+sig)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Errorf("got %d %s, want 200", w.Code, w.Body)
		}
	})
}

func TestOpen_DirectoryInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on demand")
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, dir + "/.", link} {
		_, err = Open(name, Options{})
		if !errors.Is(err, storage.ErrInUse) || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("second open of %s: %v", name, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A directory that was copied without its empty files is refused, and not taken for a new one.
func TestOpen_IncompleteCopy(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "a[1") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "byline.log"), []byte("of another program"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	fillBlog(t, c, "p", 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, files[slices.IndexFunc(files, func(f os.DirEntry) bool {
		return strings.HasPrefix(f.Name(), "marker.manifest.")
	})].Name())
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "marker.manifest.* is missing") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("opened without the marker: %v", err)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if c, err = newClient(t, e).NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadItem(ctx, pk("p"), "c00000", nil); err != nil {
		t.Error(err)
	}
}

func TestOpen_DirectoryNotWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "data"), Options{})
	if err == nil || errors.Is(err, storage.ErrInUse) || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "not writable") {
		t.Errorf("%v", err)
	}
}

func TestClose_LaterRequests(t *testing.T) {
	e, err := Open("", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	_, err = c.ReadItem(context.Background(), pk("a"), "1", nil)
	wantStatus(t, err, 503, "")
	_, err = c.CreateItem(context.Background(), pk("a"), []byte(`{"id":"1","pk":"a"}`), nil)
	wantStatus(t, err, 503, "")
	if err := e.Split("db", "c", "0"); !errors.Is(err, errClosed) {
		t.Errorf("split of a closed engine: got %v, want %v", err, errClosed)
	}
}

func TestDo_CanceledContext(t *testing.T) {
	e := newEngine(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Do(signed(t, "GET", "/", http.Header{}, nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEndpoint_Unique(t *testing.T) {
	a, b := newEngine(t, Options{}), newEngine(t, Options{})
	if a.Endpoint() == b.Endpoint() || !strings.HasPrefix(a.Endpoint(), "http://") {
		t.Error(a.Endpoint(), b.Endpoint())
	}
}

func TestOpen_ExistingData(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ttl := int32(1000)
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy(), DefaultTimeToLive: &ttl})
	fillBlog(t, c, "p", 20)
	written, err := c.PatchItem(ctx, pk("p"), "c00003", patchOf("/rank", 100), withContent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteItem(ctx, pk("p"), "c00004", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(500), nil); err != nil {
		t.Fatal(err)
	}
	properties, err := c.Read(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	feed := changes(t, c, nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if c, err = newClient(t, e).NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
	read, err := c.ReadItem(ctx, pk("p"), "c00003", nil)
	if err != nil || string(read.Value) != string(written.Value) || read.ETag != written.ETag {
		t.Errorf("got %s, want %s: %v", read.Value, written.Value, err)
	}
	_, err = c.ReadItem(ctx, pk("p"), "c00004", nil)
	wantStatus(t, err, 404, "")
	if d := cmp.Diff(feed, changes(t, c, nil)); d != "" {
		t.Error(d)
	}
	again, err := c.Read(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(properties.ContainerProperties, again.ContainerProperties); d != "" {
		t.Error(d)
	}
	offer, err := c.ReadThroughput(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := offer.ThroughputProperties.ManualThroughput(); !ok || n != 500 {
		t.Errorf("throughput %d", n)
	}
	next := mustCreate(t, c, "p", `{"id":"next","pk":"p"}`)
	if *next.SessionToken != "0:-1#4" {
		t.Errorf("next session token %s, want 0:-1#4", *next.SessionToken)
	}
}

func TestDropContainer_NoKeysLeft(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 20)
	if _, err := c.Delete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	_, err := c.ReadItem(ctx, pk("p"), "c00003", nil)
	wantStatus(t, err, 404, "1003")
	wantEmpty(t, e)
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{layout.KindLSN},
		UpperBound: []byte{layout.KindLSN + 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	if it.First() {
		t.Errorf("left over: %q", it.Key())
	}
}

func TestReindex_Interrupted(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(t, c, "p", 20)
	// The state after a crash: the record is marked, and entries are missing.
	inner := e.catalog.Load().databases["db"].containers["c"]
	r := inner.def.record
	r.Reindexing = true
	m := &metaChange{e: e, batch: e.db.NewBatch()}
	if err := m.set(layout.MetaContainer, inner.No, r); err != nil {
		t.Fatal(err)
	}
	if err := m.batch.DeleteRange(layout.AppendKind(nil, layout.KindComposite, inner.No),
		layout.AppendKind(nil, layout.KindComposite, inner.No+1), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Apply(m.batch, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if c, err = newClient(t, e).NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
	if rows := queryAll(t, c,
		"SELECT VALUE c.id FROM c WHERE c.type = 'comment' ORDER BY c.type, c.creationDate, c.id", pk("p"),
		nil); len(rows) != 20 {
		t.Errorf("%q", rows)
	}
}

func rawResponse(err error) *http.Response {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.RawResponse
	}
	return nil
}

// TestServeHTTP uses the engine as a server, with net/http's client.
func TestServeHTTP(t *testing.T) {
	e := newEngine(t, Options{})
	server := httptest.NewServer(e)
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.URL, cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: server.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := client.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(ctx,
		azcosmos.ContainerProperties{ID: "c",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer("c")
	if err != nil {
		t.Fatal(err)
	}
	mustCreate(t, c, "a", `{"id":"1","pk":"a"}`)
	if got := queryAll(t, c, "SELECT VALUE c.id FROM c", pk("a"), nil); len(got) != 1 {
		t.Errorf("got %q, want one row", got)
	}
}
