package storage

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestDisk: after a failed write the files are unchanged, partial tables are removed, and files created
// later can be read.
func TestDisk(t *testing.T) {
	under := vfs.NewMem()
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFilePreallocate ||
			op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := under.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	var reported []error
	d, err := newDisk(errorfs.Wrap(under, &full), "d", func(err error) { reported = append(reported, err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	create := func(name string) vfs.File {
		t.Helper()
		f, err := d.Create(name, "pebble-compaction")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	write := func(f vfs.File, text string) {
		t.Helper()
		if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	whole := create("d/0.sst")
	write(whole, "one ")
	if err := whole.Sync(); err != nil {
		t.Fatal(err)
	}
	log, table, later := create("d/1.log"), create("d/2.sst"), create("d/3.sst")
	write(log, "one ")
	write(table, "one ")
	write(later, "one ")
	full.On()
	write(log, "two")
	if err := log.Preallocate(0, 1<<20); err != nil {
		t.Error("Preallocate on a frozen disk:", err)
	}
	full.Off()
	write(log, "three")
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
	if _, err := table.Write([]byte("two")); !errors.Is(err, ErrFrozen) {
		t.Errorf("write to a table of a frozen disk: got %v, want %v", err, ErrFrozen)
	}
	if err := later.Sync(); !errors.Is(err, ErrFrozen) {
		t.Errorf("sync of a table of a frozen disk: got %v, want %v", err, ErrFrozen)
	}
	for _, name := range []string{"d/0.sst", "d/2.sst"} {
		if err := d.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if f, err := d.Create("d/4.sst", "pebble-compaction"); !errors.Is(err, ErrFrozen) {
		t.Errorf("create a table without stalled writers: got %v %v, want %v", f, err, ErrFrozen)
	}
	d.stalled.Store(true)
	for _, name := range []string{"d/4.sst", "d/5.log", "d/MANIFEST"} {
		write(create(name), name)
		f, err := d.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); string(got) != name || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if info, err := d.Stat(name); err != nil || info.Size() != int64(len(name)) {
			t.Errorf("%q: %v %v", name, info, err)
		}
	}
	if err := d.Remove("d/4.sst"); err != nil {
		t.Error(err)
	}
	if _, err := d.Open("d/4.sst"); err == nil {
		t.Error("a removed file can be opened")
	}
	if len(reported) != 1 || !errors.Is(reported[0], syscall.ENOSPC) {
		t.Errorf("reported %v, want %v once", reported, syscall.ENOSPC)
	}
	names, err := under.List("d")
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"0.sst", "1.log"}) {
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range names {
		f, err := under.Open("d/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); string(got) != "one " || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
