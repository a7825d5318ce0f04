package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(b)))
	return len(b), nil
}

// notIndexed is an indexing policy for large items.
var notIndexed = &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
	ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}

// TestFullDisk_Flush: the log can be written, but no table. Writes are refused instead of blocking
// forever.
func TestFullDisk_Flush(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	e, err := open("", errorfs.Wrap(mem, &full), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: notIndexed})
	full.On()
	acknowledged := []string{}
	content := strings.Repeat("x", 1<<20)
	for i := range 40 {
		id := fmt.Sprint(i)
		_, err = c.CreateItem(ctx, pk("p"), fmt.Appendf(nil, `{"id":%q,"pk":"p","x":"%s"}`, id, content), nil)
		if err != nil {
			break
		}
		acknowledged = append(acknowledged, id)
	}
	if statusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("after %d writes: got %v, want 503", len(acknowledged), err)
	}
	if _, err := c.ReadItem(ctx, pk("p"), "0", nil); err != nil {
		t.Error(err)
	}
	full.Off()
	e.Close()
	again := newEngineOn(t, mem.CrashClone(vfs.CrashCloneCfg{}), Options{})
	client, err := newClient(t, again).NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range acknowledged {
		if _, err := client.ReadItem(ctx, pk("p"), id, nil); err != nil {
			t.Errorf("an acknowledged write is lost: %v", err)
		}
	}
}

// TestFullDisk fills the disk in different ways during writes. Afterwards acknowledged writes
// exist, others exist completely or not at all, reads work and writes are refused.
func TestFullDisk(t *testing.T) {
	for name, fails := range map[string]func(errorfs.Op) bool{
		"log cannot grow": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log")
		},
		"log cannot be synced": func(op errorfs.Op) bool {
			return slices.Contains([]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
				op.Kind) && strings.HasSuffix(op.Path, ".log")
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			mem := vfs.NewCrashableMem()
			var full errorfs.Toggle
			full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
				if fails(op) {
					return syscall.ENOSPC
				}
				return nil
			})
			var log lines
			e, err := open("", errorfs.Wrap(mem, &full), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			c := newContainer(t, e, azcosmos.ContainerProperties{})
			mustCreate(t, c, "p", `{"id":"before","pk":"p"}`)
			full.On()
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					b := c.NewTransactionalBatch(pk("p"))
					for _, half := range []string{"first", "second"} {
						b.CreateItem([]byte(`{"id":"`+half+string(rune('0'+w))+`","pk":"p"}`), nil)
					}
					if out, err := c.ExecuteTransactionalBatch(ctx, b,
						nil); statusOf(err) != http.StatusServiceUnavailable {
						t.Errorf("write on a full disk: got %v %v, want 503", out.Success, err)
					}
				})
			}
			wg.Wait()
			if _, err := c.ReadItem(ctx, pk("p"), "before", nil); err != nil {
				t.Errorf("read on a full disk: %v", err)
			}
			full.Off()
			_, err = c.CreateItem(ctx, pk("p"), []byte(`{"id":"later","pk":"p"}`), nil)
			if statusOf(err) != http.StatusServiceUnavailable {
				t.Errorf("write after a lost write: got %v, want 503", err)
			}
			if err := e.Split("db", "c", "0"); err == nil {
				t.Error("split after a lost write succeeded")
			}
			e.Close() // the error does not matter: the directory is opened again
			n := 0
			for _, l := range log.all {
				if strings.Contains(l, "durable") {
					n++
				}
			}
			if n != 1 || !strings.Contains(strings.Join(log.all, "\n"), "no space left") {
				t.Errorf("log:\n%s", strings.Join(log.all, "\n"))
			}
			for _, after := range []vfs.FS{mem, mem.CrashClone(vfs.CrashCloneCfg{})} {
				again := newEngineOn(t, after, Options{})
				client, err := newClient(t, again).NewContainer("db", "c")
				if err != nil {
					t.Fatal(err)
				}
				got := queryAll(t, client, "SELECT VALUE c.id FROM c", pk("p"), nil)
				if !slices.Contains(got, `"before"`) {
					t.Errorf("an acknowledged write is lost: %v", got)
				}
				for w := range 4 {
					if slices.Contains(got, `"first`+string(rune('0'+w))+`"`) != slices.Contains(got,
						`"second`+string(rune('0'+w))+`"`) {
						t.Errorf("part of a batch: %v", got)
					}
				}
			}
		})
	}
}

// TestFullDisk_NoSync: concurrent writers that do not wait for the disk get an error when it is
// full or broken, and none blocks forever.
func TestFullDisk_NoSync(t *testing.T) {
	heavy(t)
	writes, syncs := []errorfs.OpKind{errorfs.OpFileWrite},
		[]errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	for _, tt := range []struct {
		name  string
		kinds []errorfs.OpKind
		path  string // part of it
		err   error
		// writes before the error: fewer than fill the first log, because errorfs does not see writes to a recycled one
		after int64
	}{
		{"log from the start", writes, ".log", syscall.ENOSPC, 1},
		{"log", writes, ".log", syscall.ENOSPC, 200},
		{"log cannot be synced", syncs, ".log", syscall.EIO, 200},
		{"no new log", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, ".log", syscall.ENOSPC, 200},
		{"tables", writes, ".sst", syscall.ENOSPC, 200},
		{"no new table", []errorfs.OpKind{errorfs.OpCreate}, ".sst", syscall.ENOSPC, 200},
		{"tables cannot be synced", syncs, ".sst", syscall.EIO, 200},
		{"manifest", writes, "MANIFEST", syscall.ENOSPC, 200},
		{"manifest cannot be synced", syncs, "MANIFEST", syscall.EIO, 200},
		{"everything",
			append(append([]errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, writes...), syncs...), "",
			syscall.ENOSPC, 200},
	} {
		for _, noSync := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, "/sync=", !noSync), func(t *testing.T) {
				t.Parallel()
				var full errorfs.Toggle
				full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
					if slices.Contains(tt.kinds, op.Kind) && strings.Contains(op.Path, tt.path) {
						return tt.err
					}
					return nil
				})
				var log lines
				mem := vfs.NewMem()
				e, err := open("", errorfs.Wrap(mem, &full),
					Options{NoSync: noSync, Partitions: 8, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: notIndexed})
				content := strings.Repeat("x", 32<<10)
				var written atomic.Int64
				var wg sync.WaitGroup
				for w := range 8 {
					wg.Go(func() {
						for i := 0; ; i++ {
							key := fmt.Sprint(w, "-", i)
							if written.Add(1) == tt.after {
								full.On()
							}
							_, err := c.CreateItem(context.Background(), pk(key),
								[]byte(`{"id":"1","pk":"`+key+`","content":"`+content+`"}`), nil)
							if err != nil {
								wantStatus(t, err, http.StatusServiceUnavailable, "")
								return
							}
						}
					})
				}
				ended := make(chan error, 1)
				go func() {
					wg.Wait()
					if err := e.Compact(t.Context()); !errors.Is(err, tt.err) {
						t.Errorf("compact: got %v, want %v", err, tt.err)
					}
					ended <- e.Close()
				}()
				select {
				case err := <-ended:
					if !errors.Is(err, tt.err) {
						t.Errorf("close: got %v, want %v", err, tt.err)
					}
				case <-time.After(30 * time.Second):
					t.Fatal("a write, Compact or Close blocks")
				}
				if text := strings.Join(log.all, "\n"); strings.Count(text, "could not be made durable") != 1 ||
					strings.Contains(text, "panicked") || !strings.Contains(text, tt.err.Error()) {
					t.Errorf("log:\n%s", text)
				}
				full.Off()
				newEngineOn(t, mem, Options{}) // the directory can be opened again
			})
		}
	}
}

// noise returns random letters, which compress badly.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(rand.IntN(26))
	}
	return b
}

// TestUnreadableTable: writes are refused instead of blocking forever on a compaction that cannot
// succeed.
func TestUnreadableTable(t *testing.T) {
	heavy(t)
	t.Parallel()
	var bad atomic.Pointer[string]
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileReadAt || op.Offset > 64<<10 || !strings.HasSuffix(op.Path, ".sst") {
			return nil
		}
		if bad.CompareAndSwap(nil, &op.Path); op.Path != *bad.Load() {
			return nil
		}
		return syscall.EIO
	}))
	var log lines
	e, err := open("", fs, Options{Partitions: 8, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: notIndexed})
	content := noise(1 << 20)
	ended := make(chan error, 1)
	go func() {
		for i := range 1000 {
			if _, err := c.CreateItem(context.Background(), pk(fmt.Sprint(i)),
				fmt.Appendf(nil, `{"id":"1","pk":"%d","content":"%s"}`, i, content), nil); err != nil {
				wantStatus(t, err, http.StatusServiceUnavailable, "")
				break
			}
		}
		ended <- e.Close()
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("close: got %v, want %v", err, syscall.EIO)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a write or Close blocks")
	}
	if len(log.all) != 1 || !strings.Contains(log.all[0], "writes are refused") {
		t.Error(log.all)
	}
}

// TestCorruptTable: a read of the table gets 503, other reads succeed.
func TestCorruptTable(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	first, err := open("", files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustCreate(t, newContainer(t, first, azcosmos.ContainerProperties{}), "p",
		fmt.Sprintf(`{"id":"1","pk":"p","content":%q}`, noise(16<<10)))
	if err := errors.Join(first.Compact(t.Context()), first.Close()); err != nil {
		t.Fatal(err)
	}
	var log lines
	e, err := open("", files, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	names, err := files.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := files.OpenReadWrite("data/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("garbage"), 8<<10); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	res := do(t, e, http.MethodGet, "/dbs/db/colls/c/docs/1", "", "x-ms-documentdb-partitionkey", `["p"]`)
	if text := strings.Join(log.all, "\n"); res.StatusCode != http.StatusServiceUnavailable || len(log.all) != 1 ||
		strings.Contains(text, "panicked") {
		t.Errorf("%s, log:\n%s", res.Status, text)
	}
}

// TestFullDisk_Reindex: a change in several batches stops at the first failure.
func TestFullDisk_Reindex(t *testing.T) {
	e, err := Open("", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	mustCreate(t, newContainer(t, e, azcosmos.ContainerProperties{}), "p", `{"id":"1","pk":"p"}`)
	c := e.catalog.Load().databases["db"].containers["c"]
	e.writesFailed(syscall.ENOSPC)
	if err := e.rebuildIndex(c, c.def); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("index: %v", err)
	}
	m := &metaChange{e: e, batch: e.db.NewBatch()}
	defer m.batch.Close()
	if err := m.split(c, 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("split: %v", err)
	}
}

// TestOpen_FullDisk: whichever write fails, the error names the cause, and a later Open succeeds.
func TestOpen_FullDisk(t *testing.T) {
	writes, creates := []errorfs.OpKind{errorfs.OpFileWrite}, []errorfs.OpKind{errorfs.OpCreate}
	syncs := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	for _, tt := range []struct {
		name  string
		items int
		kinds []errorfs.OpKind
		path  string // part of it
		err   error
	}{
		{"a log to replay", 1, writes, "", syscall.ENOSPC},
		{"an empty log", 0, writes, "", syscall.ENOSPC},
		{"table cannot be written", 1, writes, ".sst", syscall.EIO},
		{"table cannot be synced", 1, syncs, ".sst", syscall.ENOSPC},
		{"no new table", 1, creates, ".sst", syscall.EDQUOT},
		{"no new log", 1, creates, ".log", syscall.EIO},
		{"manifest cannot be written", 1, writes, "MANIFEST", syscall.EIO},
		{"manifest cannot be synced", 1, syncs, "MANIFEST", syscall.ENOSPC},
		{"no new marker", 1, creates, "marker", syscall.EIO},
		{"options cannot be synced", 1, syncs, ".dbtmp", syscall.EIO},
		{"options cannot be renamed", 1, []errorfs.OpKind{errorfs.OpRename}, "", syscall.ENOSPC},
		{"nothing can be synced", 1, syncs, "", syscall.EIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := vfs.NewCrashableMem()
			first, err := open("", before, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if tt.items > 0 {
				mustCreate(t, newContainer(t, first, azcosmos.ContainerProperties{}), "p", `{"id":"1","pk":"p"}`)
			}
			mem := before.CrashClone(vfs.CrashCloneCfg{})
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			var full errorfs.Toggle
			full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
				if slices.Contains(tt.kinds, op.Kind) && strings.Contains(op.Path, tt.path) {
					return tt.err
				}
				return nil
			})
			full.On()
			var log lines
			files, o := errorfs.Wrap(mem, &full), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			refused := make(chan error, 1)
			go func() {
				_, err := open("", files, o)
				refused <- err
			}()
			select {
			case err = <-refused:
			case <-time.After(time.Minute):
				t.Fatal("Open blocks")
			}
			if !errors.Is(err, tt.err) ||
				strings.Contains(err.Error(), "free some space and start again") != (tt.err == syscall.ENOSPC) ||
				strings.Contains(err.Error(), "\n") {
				t.Error(err)
			}
			if len(log.all) > 0 {
				t.Errorf("log: %s", log.all)
			}
			full.Off()
			again, err := open("", files, o)
			if err != nil {
				t.Fatal("Open after the error is gone:", err)
			}
			defer again.Close()
			if tt.items > 0 {
				if res := do(t, again, http.MethodGet, "/dbs/db/colls/c/docs/1", "", "x-ms-documentdb-partitionkey",
					`["p"]`); res.StatusCode != http.StatusOK {
					t.Errorf("read of an acknowledged write: %s", res.Status)
				}
			}
		})
	}
}
