package emulator

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

// TestDisk: after a failed write the files are unchanged, without a partial table, and files
// created later can be read.
func TestDisk(t *testing.T) {
	under := vfs.NewMem()
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFilePreallocate || op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := under.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	var told []error
	d, err := newDisk(errorfs.Wrap(under, &full), "d", func(err error) { told = append(told, err) })
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
		t.Error("room was taken:", err)
	}
	full.Off()
	write(log, "three")
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
	if _, err := table.Write([]byte("two")); !errors.Is(err, errFrozen) {
		t.Errorf("a table is left half written: %v", err)
	}
	if err := later.Sync(); !errors.Is(err, errFrozen) {
		t.Errorf("a table is not made durable: %v", err)
	}
	for _, name := range []string{"d/0.sst", "d/2.sst"} {
		if err := d.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if f, err := d.Create("d/4.sst", "pebble-compaction"); !errors.Is(err, errFrozen) {
		t.Errorf("a table that nobody waits for: %v %v", f, err)
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
		t.Error("what is removed is there")
	}
	if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) {
		t.Error(told)
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
