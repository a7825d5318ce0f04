package emulator

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// heldDisk is a disk on which compactions block before they write, until merge is closed.
type heldDisk struct {
	vfs.FS
	compacting chan struct{} // receives a value when a compaction blocks
	merge      chan struct{}
}

func (d heldDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == "pebble-compaction" {
		select {
		case d.compacting <- struct{}{}:
		default:
		}
		<-d.merge
	}
	return d.FS.Create(name, category)
}

func (d heldDisk) await(t *testing.T) {
	t.Helper()
	select {
	case <-d.compacting:
	case <-time.After(time.Minute):
		t.Fatal("nothing is compacted")
	}
}

// TestOpen_CompactionDue: Open after a crash starts the compaction that is due, and does not wait for it.
func TestOpen_CompactionDue(t *testing.T) {
	heavy(t)
	t.Parallel()
	mem := vfs.NewCrashableMem()
	loaded := heldDisk{mem, make(chan struct{}, 1), make(chan struct{})}
	e := newEngineOn(t, loaded, Options{})
	scaleContainer(t, e)
	items := 0
	for due := false; !due; { // write overlapping tables until a compaction starts
		if err := bulkLoad(e, items, items+10_000); err != nil {
			t.Fatal(err)
		}
		items += 10_000
		select {
		case <-loaded.compacting:
			due = true
		default:
		}
		if items > 1_000_000 {
			t.Fatal("nothing is compacted")
		}
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	close(loaded.merge)

	started := heldDisk{crashed, make(chan struct{}, 1), make(chan struct{})}
	release := sync.OnceFunc(func() { close(started.merge) })
	opened := make(chan struct{})
	var again *Engine
	var err error
	go func() {
		again, err = open("", started, Options{})
		close(opened)
	}()
	select {
	case <-opened:
	case <-time.After(time.Minute):
		t.Error("Open waits for a compaction")
		release()
		<-opened
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		release()
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	if !t.Failed() {
		started.await(t)
		release()
	}
	for i := 0; i < items; i += bulkBatch {
		read := signed(t, "GET", "/dbs/db/colls/c/docs/"+scaleID(i),
			http.Header{"X-Ms-Documentdb-Partitionkey": {fmt.Sprintf("[%q]", scaleKey(i))}}, nil)
		if err := roundTrip(again, read, nil); err != nil {
			t.Fatal(i, err)
		}
	}
}
