package emulator

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that Pebble writes to. Pebble panics, holding what everybody else
// waits for, where its log or its manifest cannot be written, and lets writers wait for ever
// where its tables cannot. So it never learns that the disk is full or broken: from the first
// write that fails, nothing on the disk changes any more. It stays as a crash at that moment
// would leave it, and what Pebble needs to write to come to an end goes to memory and is
// dropped with it.
type disk struct {
	vfs.FS
	lost func(error) // is told of a write that fails once Pebble is open, before anybody can think it done

	frozen  atomic.Bool // nothing on the disk changes any more
	stalled atomic.Bool // a writer waits for Pebble to write tables
	memory  vfs.FS      // what is created after that

	mu     sync.Mutex
	opened bool  // guarded by mu: Pebble is open
	before error // guarded by mu: of the first write that failed before that
}

// newDisk returns a disk for a directory of files.
func newDisk(files vfs.FS, dir string, lost func(error)) (*disk, error) {
	d := &disk{FS: files, lost: lost, memory: vfs.NewMem()}
	return d, d.memory.MkdirAll(dir, 0o755)
}

// open says that Pebble's Open has ended. The error is of a write that failed in it: Pebble
// does not know.
func (d *disk) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = true
	return d.before
}

// freeze freezes the disk, because of err.
func (d *disk) freeze(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened {
		d.lost(err)
	} else if d.before == nil {
		d.before = err
	}
	d.frozen.Store(true)
}

// unmerged is told why a compaction did not come to its end. Pebble tries again at once, and
// lets writers wait for ever meanwhile, so that one that can never be is the end of writing.
func (d *disk) unmerged(err error) {
	d.mu.Lock()
	opened := d.opened
	d.mu.Unlock()
	if opened && !d.frozen.Load() {
		d.freeze(err)
	}
	time.Sleep(unmergedRetry)
}

var errFrozen = errors.New("an earlier write of the data directory failed")

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// create creates a file by way of fn, or in memory.
func (d *disk) create(name string, category vfs.DiskWriteCategory, fn func() (vfs.File, error)) (vfs.File, error) {
	if !d.frozen.Load() {
		f, err := fn()
		if err == nil {
			return &diskFile{f, d, name}, nil
		}
		d.freeze(err)
	}
	// Of the tables, a flush takes no more memory than it frees. A compaction may, so there
	// is one only where somebody waits for it.
	if isTable(name) && category != "pebble-memtable-flush" && !d.stalled.Load() {
		time.Sleep(frozenRetry) // Pebble tries again at once
		return nil, errFrozen
	}
	return d.memory.Create(name, category)
}

// Create implements vfs.FS.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(name, category, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (d *disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(newname, category, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, category) })
}

// OpenDir implements vfs.FS.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d, name}, nil
}

// Rename implements vfs.FS.
func (d *disk) Rename(oldname, newname string) error {
	if !d.frozen.Load() { // else what has the old name may be half written
		if err := d.FS.Rename(oldname, newname); err != nil {
			d.freeze(err)
		}
	}
	return nil
}

// Remove implements vfs.FS.
func (d *disk) Remove(name string) error {
	if !d.frozen.Load() {
		return d.FS.Remove(name)
	}
	if err := d.memory.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Open implements vfs.FS.
func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.frozen.Load() {
		if f, err := d.memory.Open(name, opts...); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return d.FS.Open(name, opts...)
}

// Stat implements vfs.FS.
func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if d.frozen.Load() {
		if info, err := d.memory.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
	}
	return d.FS.Stat(name)
}

// diskFile is a file on the disk. What is written to it after the disk is frozen is dropped.
type diskFile struct {
	vfs.File
	disk *disk
	name string
}

// dropped is what Pebble is told of what was dropped. A table is begun again elsewhere: half of
// one is of no use, no manifest knows it, and the next start needs the room.
func (f *diskFile) dropped() error {
	if !isTable(f.name) {
		return nil
	}
	_ = f.disk.FS.Remove(f.name) // or the next start does it
	return errFrozen
}

// Write implements vfs.File.
func (f *diskFile) Write(b []byte) (int, error) {
	if !f.disk.frozen.Load() {
		n, err := f.File.Write(b)
		if err == nil {
			return n, nil
		}
		f.disk.freeze(err)
	}
	if err := f.dropped(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Preallocate implements vfs.File. Pebble does not need it.
func (f *diskFile) Preallocate(offset, length int64) error {
	if f.disk.frozen.Load() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// sync does what fn does as long as the disk is not frozen.
func (f *diskFile) sync(fn func() error) error {
	if !f.disk.frozen.Load() {
		err := fn()
		if err == nil {
			return nil
		}
		f.disk.freeze(err)
	}
	return f.dropped()
}

// Sync implements vfs.File.
func (f *diskFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File. Who is about to write may do so first, and share the next one.
func (f *diskFile) SyncData() error {
	runtime.Gosched()
	return f.sync(f.File.SyncData)
}

// SyncTo implements vfs.File.
func (f *diskFile) SyncTo(length int64) (all bool, err error) {
	err = f.sync(func() (err error) { all, err = f.File.SyncTo(length); return err })
	return all, err
}
